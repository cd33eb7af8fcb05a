package fabric

// SetLimits changes the greatest size of a fabric until restore is called.
func SetLimits(nodes, ports, problems int) (restore func()) {
	oldNodes, oldPorts, oldProblems := maxNodes, maxPorts, maxProblems
	maxNodes, maxPorts, maxProblems = nodes, ports, problems
	return func() { maxNodes, maxPorts, maxProblems = oldNodes, oldPorts, oldProblems }
}
