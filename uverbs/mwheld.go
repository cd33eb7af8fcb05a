package uverbs

// HeldBy has QP.Close refuse until mw is closed, or bound through another QP. It
// is for drivers that can't destroy a QP through which a window is bound. Who ends
// such a binding, and when, is not followed: the window counts as bound. Call it
// with the send queue held, before the binding is queued; an error forbids that.
func (r *QPRequest) HeldBy(mw *MW) error {
	qp := &r.qp.node
	qp.graph.Lock()
	defer qp.graph.Unlock()
	for _, n := range []*node{qp, &mw.node} {
		if n.state != nodeOpen {
			return n.fail("bind", ErrClosed, "")
		}
	}
	if mw.holds == qp {
		return nil
	}
	if mw.holds != nil {
		mw.leaveLocked(mw.holds)
	}
	mw.parents = append(mw.parents, qp)
	qp.use(&mw.node)
	mw.holds = qp
	return nil
}
