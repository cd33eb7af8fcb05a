// Package onesided keeps the one-sided operations of a send queue: RDMA READs, WRITEs and atomic operations, which may
// share the queue with other work requests. It decides which of them are signaled, matches completions with operations,
// and ignores completions of operations that are not outstanding.
//
// It has no limit of outstanding READs, because a queue pair itself holds back those beyond its initiator depth. They
// need a place in the send queue until then, so the queue's capacity is the limit.
package onesided

import "github.com/goverbs/goverbs/verbs"

// MaxLength is the maximum length in bytes of one operation. Devices limit the length of a message, most of them to 2
// GiB - 1.
const MaxLength = 1 << 30

// SeqBits is the length of a sequence number. The user of a Queue passes it through the WRID of a work request.
const SeqBits = 28

const seqMask = 1<<SeqBits - 1

// Queue holds the outstanding operations of a send queue. T describes an operation to the user of the Queue. The user's
// lock guards it.
//
// If the operations that are posted together have one opcode, only the last of them is signaled: the completion of an
// operation stands for the earlier ones of the same opcode. It does not stand for others, because over iWARP a WRITE
// completes before the answer to an earlier READ arrives. If an operation may be refused by the device, all are
// signaled.
//
// If the queue is Unordered, all are signaled too, and no completion stands for another operation.
type Queue[T any] struct {
	// WRID returns the WRID of a work request. If it is not signaled, it completes only if it fails.
	WRID func(seq uint32, signaled bool) uint64
	// Unordered means that operations may complete in any order.
	Unordered bool
	// Settled is called when an operation has completed, or when End is called. slot is the operation's number among
	// those of the queue.
	Settled func(op *T, slot int, err error)

	entries    []entry[T]
	wrs        []verbs.SendWR // added and not posted
	head, tail uint32         // sequence numbers of the oldest operation, and of the next one
}

type entry[T any] struct {
	op       T
	sge      [1]verbs.SGE
	opcode   verbs.Opcode
	signaled bool
	done     bool // it is settled
}

// Init prepares the queue for up to n operations, a power of two.
func (q *Queue[T]) Init(n int) { q.entries = make([]entry[T], n) }

// Room returns how many operations may be added.
func (q *Queue[T]) Room() int { return len(q.entries) - int(q.tail-q.head) }

func (q *Queue[T]) at(seq uint32) *entry[T] { return &q.entries[q.slot(seq)] }

func (q *Queue[T]) slot(seq uint32) int { return int(seq) & (len(q.entries) - 1) }

// Next returns the slot of the operation that is added next.
func (q *Queue[T]) Next() int { return q.slot(q.tail) }

// Add adds an operation for the next Post. If wr has no SGL, it is local. There must be room.
func (q *Queue[T]) Add(wr *verbs.SendWR, local verbs.SGE, op T) {
	e := q.at(q.tail)
	*e = entry[T]{op: op, sge: [1]verbs.SGE{local}, opcode: wr.Opcode}
	q.wrs = append(q.wrs, *wr)
	if wr.SGL == nil {
		q.wrs[len(q.wrs)-1].SGL = e.sge[:]
	}
	q.tail++
}

// Posted is the outcome of Post.
type Posted[T any] struct {
	// Signaled is how many operations will complete whether they fail or not.
	Signaled int
	// Certain reports whether all posted operations will be settled by completions. Otherwise only End settles some.
	Certain bool
	// Refused is the first operation that was not posted, if Err is not nil.
	Refused T
	Err     error
}

// Post posts the operations that were added. If an error prevents that for some, it settles these.
func (q *Queue[T]) Post(post func([]verbs.SendWR) (int, error)) (p Posted[T]) {
	first := q.tail - uint32(len(q.wrs))
	all := q.Unordered || !isUniform(q.wrs)
	for i := range q.wrs {
		wr, e := &q.wrs[i], q.at(first+uint32(i))
		e.signaled = all || i == len(q.wrs)-1
		wr.WRID = q.WRID((first+uint32(i))&seqMask, e.signaled)
		if wr.Flags &^= verbs.SendSignaled; e.signaled {
			wr.Flags |= verbs.SendSignaled
		}
	}
	n, err := post(q.wrs)
	clear(q.wrs)
	q.wrs = q.wrs[:0]
	p.Certain, p.Err = true, err
	end := first + uint32(n)
	for s := first; s != end; s++ {
		if p.Certain = q.at(s).signaled; p.Certain {
			p.Signaled++
		}
	}
	if end != q.tail {
		p.Refused = q.at(end).op
		for s := end; s != q.tail; s++ {
			q.settle(s, err)
		}
		q.tail = end
	}
	return p
}

// isUniform reports whether all operations are READs, or all are WRITEs.
func isUniform(wrs []verbs.SendWR) bool {
	for i := range wrs {
		if c := wrs[i].Opcode; c != wrs[0].Opcode || c != verbs.OpRDMARead && c != verbs.OpRDMAWrite {
			return false
		}
	}
	return true
}

// Complete handles the completion of an operation, and settles it and those that it stands for. It ignores completions
// that match no operation.
func (q *Queue[T]) Complete(seq uint32, signaled bool, err error) {
	back := (q.tail - seq) & seqMask // from 1 for the newest operation
	if back == 0 || back > q.tail-q.head {
		return
	}
	seq = q.tail - back
	e := q.at(seq)
	if e.done || e.signaled != signaled {
		return
	}
	for s := q.head; s != seq; s++ {
		if o := q.at(s); !o.signaled && o.opcode == e.opcode {
			q.settle(s, nil)
		}
	}
	q.settle(seq, err)
	for q.head != q.tail && q.at(q.head).done {
		q.head++
	}
}

// End settles all operations, because no completion will come any more.
func (q *Queue[T]) End(err error) {
	for s := q.head; s != q.tail; s++ {
		q.settle(s, err)
	}
	q.head = q.tail
}

func (q *Queue[T]) settle(seq uint32, err error) {
	if e := q.at(seq); !e.done {
		e.done = true
		q.Settled(&e.op, q.slot(seq), err)
	}
}

// Outstanding calls f for each posted operation that is not settled.
func (q *Queue[T]) Outstanding(f func(op *T)) {
	for s := q.head; s != q.tail; s++ {
		if e := q.at(s); !e.done {
			f(&e.op)
		}
	}
}
