package mlx5

import (
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Clean removes the completions of a QP or WQ that is in RESET or destroyed. Later entries
// move into their slots. The owner bit belongs to the slot and stays.
func (q *cq) Clean(of any) {
	p, ok := of.(*qp)
	if !ok {
		p = of.(*wq).qp
	}
	if q.lost {
		return
	}
	end := q.ci
	for end-q.ci < q.entries && q.owned(q.at(end).counterOwn.Load(), end) {
		end++
	}
	to := end
	for from := end; from != q.ci; {
		from--
		e := q.at(from)
		if q.isOf(e, p) {
			q.forget(e, p)
			continue
		}
		if to--; to != from {
			q.move(to, from)
		}
	}
	if to != q.ci {
		q.ci = to
		q.consumed()
	}
}

func (q *cq) isOf(e *cqe, p *qp) bool {
	if q.ctx.indexed {
		return be32(e.queue)&cqeNumberMask == p.index
	}
	return be32(e.opQPN)&cqeNumberMask == p.num
}

// forget gives back the receive of an SRQ that an entry completes.
func (q *cq) forget(e *cqe, p *qp) {
	last := e.counterOwn.Load()
	switch last >> cqeOpShift {
	case cqeWriteImm, cqeRecv, cqeRecvImm, cqeRecvInv, cqeRespError:
		if _, s := q.ctx.find(e, last>>cqeOpShift); s != nil && p.recvCQ == q {
			var wc verbs.WC
			s.complete(be16(uint16(last)), nil, &wc)
		}
	}
}

// move copies an entry to another slot, except for the owner bit.
func (q *cq) move(to, from uint32) {
	e := q.at(to)
	owner := e.counterOwn.Load() & cqeOwner
	q.copyEntry(q, to, from)
	e.counterOwn.Store(q.at(from).counterOwn.Load()&^cqeOwner | owner)
}

// copyEntry copies all but the last word of an entry, which may hold a message, to a slot
// of the same CQ or of its next queue.
func (q *cq) copyEntry(to *cq, at, from uint32) {
	copy(abi.Bytes(to.at(at))[:cqeSize-4], abi.Bytes(q.at(from)))
	if q.step > 1 {
		copy(abi.Bytes(to.front(at)), abi.Bytes(q.front(from)))
	}
}
