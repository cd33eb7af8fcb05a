package erdma

import "github.com/goverbs/goverbs/internal/abi"

// fill writes all but the header of a request whose blocks begin at pi. Fields that an
// operation does not use keep the values of an earlier one.
func (q *qp) fill(pi uint32, r *request) {
	e, wr := q.sq.blocks.At(pi), r.wr
	e[1] = uint64(r.key()) | uint64(r.length)<<32
	switch r.op.layout {
	case sendLayout:
		q.putData(pi, 2, r)
	case writeLayout:
		e[2], e[3] = uint64(wr.RKey)|wr.RemoteAddr<<32, wr.RemoteAddr>>32
		q.putData(pi+1, 0, r)
	case readLayout:
		local, remote := &r.sgl[0], q.sq.blocks.At(pi+1)
		e[2], e[3] = uint64(local.LKey)|local.Addr<<32, local.Addr>>32
		remote[0], remote[1] = wr.RemoteAddr, uint64(r.length)|uint64(wr.RKey)<<32
	case atomicLayout:
		q.putAtomic(pi, r)
	case invLayout:
		*e = block{2: uint64(wr.InvalidateRKey) << 32}
	}
}

// key returns the lower half of the second word: immediate data, most significant byte
// first, or the key to invalidate. A READ_WITH_INV invalidates the key of its own buffer.
func (r *request) key() uint32 {
	switch r.op.code {
	case opSendImm, opWriteImm:
		return be32(r.wr.Imm)
	case opSendInv:
		return r.wr.InvalidateRKey
	case opReadInv:
		return r.sgl[0].LKey
	}
	return 0
}

func (q *qp) putAtomic(pi uint32, r *request) {
	e, more, wr := q.sq.blocks.At(pi), q.sq.blocks.At(pi+1), r.wr
	if e[1] = 0; r.op.code == opCompareSwap {
		e[2], e[3] = wr.Swap, wr.CompareAdd
	} else {
		e[2], e[3] = wr.CompareAdd, 0
	}
	more[0], more[1] = wr.RemoteAddr, uint64(wr.RKey)<<32
	more[2], more[3] = sgeWords(&r.sgl[0])
}

// putData writes SGEs or inline data, beginning at a word of a block. If an SGE at the
// start of a block is the last one, the QPN is at the block's end, as in C.
func (q *qp) putData(at uint32, word int, r *request) {
	if r.inline != nil {
		q.putInline(at, 8*word, r.inline)
		return
	}
	for i := range r.sgl {
		b := q.sq.blocks.At(at)
		b[word], b[word+1] = sgeWords(&r.sgl[i])
		if word == 0 {
			b[3] = uint64(uint32(b[3])) | uint64(q.num)<<32
			word = 2
			continue
		}
		at, word = at+1, 0
	}
}

// putInline copies data, which may wrap around the end of the queue.
func (q *qp) putInline(at uint32, offset int, data []byte) {
	for len(data) > 0 {
		n := copy(abi.Bytes(q.sq.blocks.At(at))[offset:], data)
		data, at, offset = data[n:], at+1, 0
	}
}
