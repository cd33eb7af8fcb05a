package uverbs

import (
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// leaving is a QP's way out of its CQs, when the kernel has put it into RESET or
// destroyed it: nothing comes of it any more, and what the CQs hold of it must not be
// taken for the next life's, or for that of the next QP with its number, which may
// exist already. The CQs are held from begin to end.
type leaving struct {
	qp       *QP
	begun    bool
	failures []failure // of other QPs, found on the way
}

// begin is called when the kernel is done, perhaps twice.
func (l *leaving) begin() {
	if l.begun {
		return
	}
	l.begun = true
	for _, cq := range l.qp.cqs() {
		cq.mu.Lock()
		l.failures = append(l.failures, cq.forget(l.qp)...)
	}
}

func (l *leaving) end() {
	if !l.begun {
		return
	}
	for _, cq := range l.qp.cqs() {
		cq.mu.Unlock()
	}
}

// cqs are the QP's CQs in the order in which they are to be locked.
func (qp *QP) cqs() []*CQ {
	switch a, b := qp.sendCQ, qp.recvCQ; {
	case a == nil: // it has no queues
		return nil
	case b == nil, a == b:
		return []*CQ{a}
	case a.handle < b.handle:
		return []*CQ{a, b}
	default:
		return []*CQ{b, a}
	}
}

// forget takes a QP's completions off the ring, if the CQ still knows it under its
// number. It is called with the CQ held.
func (cq *CQ) forget(qp *QP) []failure {
	switch {
	case cq.qps[qp.num] != qp:
		return nil
	case cq.cleaner != nil:
		cq.cleaner.Clean(qp.ring)
		return nil
	}
	return cq.drain()
}

// addQP makes qp the one that completions with its number speak of. A QP that is
// being destroyed may have the number still; what is on the ring is that one's.
func (cq *CQ) addQP(qp *QP) {
	cq.mu.Lock()
	var failed []failure
	if former := cq.qps[qp.num]; former != nil && former != qp {
		failed = cq.forget(former)
	}
	if cq.qps == nil {
		cq.qps = make(map[uint32]*QP)
	}
	cq.qps[qp.num] = qp
	cq.mu.Unlock()
	tell(failed)
}

// removeQP is called with the CQ held.
func (cq *CQ) removeQP(qp *QP) {
	if cq.qps[qp.num] == qp {
		delete(cq.qps, qp.num)
	}
}

// batches are for drain, which every QP that is closed needs.
var batches = sync.Pool{New: func() any { return new([16]verbs.WC) }}

// drain moves completions from the ring to old, no more than the ring can hold,
// and tells whose failed. It is called with the CQ held.
func (cq *CQ) drain() (failed []failure) {
	batch := batches.Get().(*[16]verbs.WC)
	defer batches.Put(batch)
	for all := 0; all < cq.cqe; all += len(batch) {
		n, err := cq.drainSome(batch[:])
		cq.old = append(cq.old, batch[:n]...)
		failed = append(failed, cq.failures(batch[:n])...)
		if n < len(batch) || err != nil {
			break
		}
	}
	cq.setOdd()
	return failed
}

// failures finds the QPs of completions that were no success. It is called with
// the lock held that the completions were taken under, for the numbers may be
// other QPs' later.
func (cq *CQ) failures(wcs []verbs.WC) (failed []failure) {
	for i := range wcs {
		if wcs[i].Status != verbs.StatusSuccess {
			if qp := cq.qps[wcs[i].QPN]; qp != nil {
				qp.first.note(wcs[i].Status)
				failed = append(failed, failure{qp, qp.life.Load()})
			}
		}
	}
	return failed
}

func (cq *CQ) drainSome(batch []verbs.WC) (n int, err error) {
	if cq.ext == nil {
		n, _, err = cq.ring.Poll(batch)
		return n, err
	}
	ext := make([]verbs.WCExt, len(batch))
	n, _, err = cq.ext.PollExt(batch, ext)
	cq.oldExt = append(cq.oldExt, ext[:n]...)
	return n, err
}
