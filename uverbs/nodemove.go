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
	delete(parent.users, n)
	n.parents = slices.DeleteFunc(n.parents, func(p *node) bool { return p == parent })
}

func (n *node) join(p *node) error {
	n.graph.Lock()
	defer n.graph.Unlock()
	if p.graph != n.graph || p.state != nodeOpen {
		return n.fail("change", ErrClosed, p.name+" is closed or belongs to another device")
	}
	p.use(n)
	n.parents = append(n.parents, p)
	return nil
}

func (n *node) use(user *node) {
	if n.users == nil {
		n.users = make(map[*node]struct{})
	}
	n.users[user] = struct{}{}
}
