package rxe

import "github.com/goverbs/goverbs/mmap"

// Idle tells that the kernel has been through both queues, which it empties in its
// own time.
func (q *qp) Idle() bool {
	return isEmpty(q.sq, q.granted.MaxSendWR) && (q.rq == nil || isEmpty(q.rq.ring, q.granted.MaxRecvWR))
}

// isEmpty: of a queue whose kernel's index is out of range nothing is to come.
func isEmpty[T any](ring *mmap.IndexedProducer[T], entries uint32) bool {
	_, room, err := ring.Room(int(entries))
	return err != nil || room == int(entries)
}
