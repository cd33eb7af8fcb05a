package fakeverbs

// Numbers hands out the lowest number that is free, without counting up to it each time.
type Numbers struct{ below uint32 } // all of these are taken

func (n *Numbers) Take(isTaken func(uint32) bool) uint32 {
	for isTaken(n.below) {
		n.below++
	}
	n.below++
	return n.below - 1
}

func (n *Numbers) Free(i uint32) { n.below = min(n.below, i) }
