package fabric

// SetMaxNodes changes the maximum number of nodes of a fabric until restore is called.
func SetMaxNodes(n int) (restore func()) {
	old := maxNodes
	maxNodes = n
	return func() { maxNodes = old }
}
