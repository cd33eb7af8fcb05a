package siw

import "github.com/goverbs/goverbs/uverbs"

// Fail completes what the kernel will not. siw flushes its queues when a QP goes
// to the error state and never looks at them again, so whatever was posted after
// that is taken back here, and what comes later goes straight to the CQ.
//
// The move to the error state comes first: it returns with the kernel's flush
// done. Only a QP that the caller had moved to SQD or SQE is flushed once more
// later, and an entry that this takes back at that moment would complete twice.
func (q *qp) Fail() {
	q.failed = true
	_ = q.request.MoveToError() // fails only when the QP is past caring
	for e, word := range q.sq.Retract {
		q.request.SendFlush.Flush(e.Id, opcodeOf(uint8(word>>24)), q.num)
	}
	if q.rq == nil {
		return
	}
	for e := range q.rq.ring.Retract {
		q.request.RecvFlush.Flush(e.Id, uverbs.WCRecv, q.num)
	}
}

// Move leaves a QP that failed as it is: siw lets none live again.
func (q *qp) Move(_ uverbs.QPState, move func() error) error { return move() }

func (q *qp) flushSends(wrs []uverbs.SendWR) (int, error) {
	for i := range wrs {
		wr := &wrs[i]
		op := sendOpcode(wr.Opcode)
		if err := q.check(wr, op, wr.SGL, wr.Inline); err != nil {
			return i, err
		}
		if q.request.SendFlush.Full() {
			return i, uverbs.ErrQueueFull
		}
		q.request.SendFlush.Flush(wr.WRID, opcodeOf(op&isOpcode), q.num)
	}
	return len(wrs), nil
}

func (q *qp) flushRecvs(wrs []uverbs.RecvWR) (int, error) {
	for i := range wrs {
		if q.request.RecvFlush.Full() {
			return i, uverbs.ErrQueueFull
		}
		q.request.RecvFlush.Flush(wrs[i].WRID, uverbs.WCRecv, q.num)
	}
	return len(wrs), nil
}
