package uverbs

// failed lets the provider complete what the device will not. The first sign of
// the error state triggers it: a failed completion, or a move to that state. A
// sign from a life that RESET ended is none.
//
// It returns when that is done, also when another goroutine does it: who comes
// here from a refused post goes on to post to the provider's flush.
func (qp *QP) failed(life uint32) {
	if qp.failing.Load() {
		return
	}
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if !qp.closed && !qp.failing.Load() && qp.life.Load() == life {
		qp.ring.Fail()
		qp.failing.Store(true)
	}
}

// failure is the news of a failed completion, with the life that it tells of.
type failure struct {
	qp   *QP
	life uint32
}

// tell passes news on. Nobody's queues may be held.
func tell(failures []failure) {
	for _, f := range failures {
		f.qp.failed(f.life)
		f.qp.first.tell()
	}
}

// issueReset carries out a move to RESET and begins a new life.
func (qp *QP) issueReset(a *QPAttr, mask QPAttrMask) error {
	failures, err := qp.reset(a, mask)
	tell(failures)
	return err
}

// reset lets nobody post meanwhile: what came to a queue that the kernel is
// emptying would be left for the QP's next life. What the CQs still hold of the
// earlier one leaves their rings, so that whatever they tell of later is the next.
func (qp *QP) reset(a *QPAttr, mask QPAttrMask) ([]failure, error) {
	qp.sq.Lock()
	defer qp.sq.Unlock()
	qp.rq.Lock()
	defer qp.rq.Unlock()
	if err := qp.ring.Move(QPStateReset, func() error { return qp.issueModify(a, mask) }); err != nil {
		return nil, err
	}
	qp.state.Store(uint32(QPStateReset))
	failures := append(qp.sendCQ.settle(), qp.recvCQ.settle()...)
	qp.life.Add(1)
	qp.failing.Store(false)
	return failures, nil
}
