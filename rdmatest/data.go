package rdmatest

import (
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// longest is the length of the longest message of any device, in bytes.
const longest = 1 << 31

// gather reads the memory that a send names. It reports whether its keys are right.
func gather(qp *fakeverbs.QP, k *packet) (ok bool) {
	w := k.w
	if w.Inline != nil && len(w.Front) == 0 {
		k.data = w.Inline
		return true
	}
	if w.Len() > longest || !mayUse(qp, w.SGL, false) {
		return false
	}
	k.buffer = slices.Grow(k.buffer[:0], int(w.Len()))[:w.Len()]
	rest := k.buffer[copy(k.buffer, w.Front):]
	rest = rest[copy(rest, w.Inline):]
	for _, s := range w.SGL {
		if s.Length == 0 {
			continue // its address means nothing
		}
		if qp.ReadSGE(s, rest[:s.Length]) != nil {
			return false
		}
		rest = rest[s.Length:]
	}
	k.data = k.buffer
	return true
}

// mayUse tells whether the keys of an SGL let it be read, or written.
func mayUse(qp *fakeverbs.QP, sgl []fakeverbs.SGE, write bool) bool {
	for _, s := range sgl {
		if !qp.LocalOK(s, write) {
			return false
		}
	}
	return true
}

// endSink ends the key of the memory that a READ_WITH_INV filled. One of no bytes may name
// none.
func endSink(qp *fakeverbs.QP, w *fakeverbs.Work) {
	if w.Opcode == abi.IB_UVERBS_WR_RDMA_READ_WITH_INV && len(w.SGL) > 0 {
		qp.Invalidate(w.SGL[0].LKey)
	}
}

// roomIn is how many bytes an SGL has room for.
func roomIn(sgl []fakeverbs.SGE) (n int) {
	for _, s := range sgl {
		n += int(s.Length)
	}
	return n
}

// scatter fills an SGL as far as there are bytes. It reports whether its keys are right.
func scatter(qp *fakeverbs.QP, sgl []fakeverbs.SGE, b []byte) bool {
	for _, s := range sgl {
		n := min(len(b), int(s.Length))
		if n == 0 {
			continue
		}
		if s.Length = uint32(n); !qp.LocalOK(s, true) || qp.WriteSGE(s, b[:n]) != nil {
			return false
		}
		b = b[n:]
	}
	return true
}

// place puts data where the peer's request says.
func place(to *pair, w *fakeverbs.Work, data []byte) {
	m, addr := to.qp.RemoteMemory(w.RKey, w.RemoteAddr)
	_ = m.Write(addr, data)
}
