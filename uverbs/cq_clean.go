package uverbs

import (
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// cleanCQs cleans the QP's CQs after the kernel has put the QP into RESET or destroyed it.
// No more completions of the QP can arrive then. Those that are still on the rings must not
// be attributed to the QP's next generation, or to the next QP with its number, which may
// exist already. cleanCQs returns the failures that it found on the rings, of other QPs as well.
func (qp *QP) cleanCQs() (found []failure) {
	for _, cq := range qp.cqs() {
		cq.mu.Lock()
		found = append(found, cq.clean(qp)...)
		cq.mu.Unlock()
	}
	return found
}

// cqs returns the QP's CQs.
func (qp *QP) cqs() []*CQ {
	switch a, b := qp.sendCQ, qp.recvCQ; {
	case a == nil && b == nil: // it has no queues
		return nil
	case b == nil, a == b:
		return []*CQ{a}
	case a == nil:
		return []*CQ{b}
	default:
		return []*CQ{a, b}
	}
}

// clean takes a QP's completions off the ring, if no newer QP of the CQ has its number. The
// caller holds the CQ.
func (cq *CQ) clean(qp *QP) []failure {
	switch {
	case cq.qps[qp.num.Load()] != qp:
		return nil
	case cq.cleaner != nil:
		cq.cleaner.Clean(qp.ring)
		return nil
	}
	return cq.drain()
}

// joinCQs attributes completions with qp's number to qp.
func (qp *QP) joinCQs() {
	for _, cq := range qp.cqs() {
		cq.addQP(qp)
	}
}

// addQP attributes completions with qp's number to qp from now on. A QP that is being
// destroyed may still have the number, and the completions on the ring belong to it.
func (cq *CQ) addQP(qp *QP) {
	cq.mu.Lock()
	var failed []failure
	if former := cq.qps[qp.num.Load()]; former != nil && former != qp {
		failed = cq.clean(former)
	}
	if cq.qps == nil {
		cq.qps = make(map[uint32]*QP)
	}
	cq.qps[qp.num.Load()] = qp
	cq.mu.Unlock()
	handleFailures(failed)
}

// removeQP removes qp from the CQ's table of QPs. A Poll that found qp before is over when removeQP returns.
func (cq *CQ) removeQP(qp *QP) {
	cq.mu.Lock()
	defer cq.mu.Unlock()
	if cq.qps[qp.num.Load()] == qp {
		delete(cq.qps, qp.num.Load())
	}
}

// batches holds buffers for drain, because every QP that is closed needs one.
var batches = sync.Pool{New: func() any { return new([16]verbs.WC) }}

// drain moves completions from the ring to old, at most as many as the ring has entries,
// and returns the QPs that failed. The caller holds the CQ.
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
	cq.setFastPath()
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
