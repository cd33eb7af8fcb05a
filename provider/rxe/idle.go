package rxe

import "github.com/goverbs/goverbs/mmap"

// Idle reports whether both queues are empty. The kernel empties them asynchronously.
func (q *qp) Idle() bool {
	return isEmpty(q.sq, q.granted.MaxSendWR) && (q.rq == nil || isEmpty(q.rq.ring, q.granted.MaxRecvWR))
}

// isEmpty reports whether a queue is empty. A queue whose kernel index is out of range
// counts as empty, because nothing more can complete.
func isEmpty[T any](ring *mmap.IndexedProducer[T], entries uint32) bool {
	_, room, err := ring.Room(int(entries))
	return err != nil || room == int(entries)
}
