package uverbs

import "slices"

// move makes n a user of to instead of from, if f agrees. Both are kept open
// meanwhile.
func (n *node) move(from, to *node, f func() error) error {
	if from == to {
		return f()
	}
	if err := n.join(to); err != nil {
		return err
	}
	err := f()
	n.graph.Lock()
	defer n.graph.Unlock()
	left := from
	if err != nil {
		left = to
	}
	n.leaveLocked(left)
	return err
}

func (n *node) leaveLocked(parent *node) {
	parent.users--
	i := slices.Index(n.parents, parent)
	n.parents = slices.Delete(n.parents, i, i+1)
}

func (n *node) join(p *node) error {
	n.graph.Lock()
	defer n.graph.Unlock()
	if p.graph != n.graph || p.state != nodeOpen {
		return n.fail("change", ErrClosed, p.name()+" is closed or belongs to another device")
	}
	n.lean(p)
	return nil
}

// lean makes n a user of one more.
func (n *node) lean(parent *node) {
	n.parents = append(n.parents, parent)
	parent.users++
}
