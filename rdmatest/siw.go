package rdmatest

import (
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// siwRules are the rules of soft iWARP. TCP carries everything, and any mistake ends
// the connection. Only READs are acknowledged, by their data.
type siwRules struct{ iwarpRules }

func (siwRules) check(f *Fabric, p *pair, k *packet) (status uint32) {
	event := uint32(abi.IB_EVENT_QP_FATAL)
	switch {
	case k.w.Opcode == fakeverbs.NoOpcode:
		status = abi.IB_WC_LOC_QP_OP_ERR
	case k.w.Opcode == abi.IB_UVERBS_WR_LOCAL_INV:
		if !p.qp.Invalidate(k.w.Imm) {
			status = abi.IB_WC_LOC_QP_OP_ERR
		}
	case fetches(k.w):
		if !mayWrite(p.qp, k.w.SGL) {
			status, event = abi.IB_WC_LOC_PROT_ERR, abi.IB_EVENT_QP_ACCESS_ERR
		}
	default:
		if !gather(p.qp, k) {
			status = abi.IB_WC_LOC_QP_OP_ERR
		}
	}
	if status != abi.IB_WC_SUCCESS {
		f.mistake(p, "a send uses local memory outside its PD, or an invalid local key")
		p.qp.Raise(event)
	}
	return status
}

func (siwRules) acknowledges(_ *fakeverbs.QP, w *fakeverbs.Work) bool { return fetches(w) }

// serveUnsent implements [unsentServer].
func (siwRules) serveUnsent(f *Fabric, p, peer *pair, k *packet) (event uint32, ok bool) {
	return f.serveSIW(p, peer, k)
}

func (siwRules) deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration) {
	to := p.other(f)
	switch {
	case to == nil:
		return abi.IB_WC_WR_FLUSH_ERR, 0
	case f.loses():
		return 0, retransmission
	case k.cut >= 0:
		f.cut(p, to, k)
		return 0, 0
	}
	if event, ok := f.serveSIW(p, to, k); !ok {
		if event != 0 {
			to.qp.Raise(event)
		}
		if fetches(k.w) { // it is the peer's answer that failed
			to.qp.Drop()
		} else {
			to.qp.Break()
		}
		to.end(f)
	}
	return abi.IB_WC_SUCCESS, 0
}

// serveSIW carries out a message at the peer. If it fails, event is the peer's.
func (f *Fabric) serveSIW(p, to *pair, k *packet) (event uint32, ok bool) {
	if right(k.w) == 0 {
		return f.messageSIW(to, k)
	}
	if n := reach(k); n > 0 && !to.qp.RemoteOK(k.w.RKey, k.w.RemoteAddr, n, right(k.w)) {
		f.mistake(to, "key %#x does not allow access to %d bytes at %#x", k.w.RKey, n, k.w.RemoteAddr)
		switch {
		case fetches(k.w) && to.qp.RemoteOK(k.w.RKey, k.w.RemoteAddr, n, 0): // for a READ, siw only checks the key
			return f.readSIW(p, to, k)
		case fetches(k.w):
			return abi.IB_EVENT_QP_REQ_ERR, false
		case !to.qp.HasKey(k.w.RKey):
			return 0, false
		}
		return abi.IB_EVENT_QP_ACCESS_ERR, false
	}
	if fetches(k.w) {
		return f.readSIW(p, to, k)
	}
	if len(k.data) > 0 && !place(to, k.w, k.data) {
		f.mistake(to, "%d bytes at %#x are not there", reach(k), k.w.RemoteAddr)
		return abi.IB_EVENT_QP_ACCESS_ERR, false
	}
	return 0, true
}

// readSIW carries out a READ. siw invalidates the key of a READ_WITH_INV only for users in the kernel.
func (f *Fabric) readSIW(p, to *pair, k *packet) (event uint32, ok bool) {
	if p.qp.FetchFrom(to.qp, k.w) {
		return 0, true
	}
	data, ok := f.fetch(to, k)
	if !ok || !scatter(p.qp, k.w.SGL, data) {
		f.mistake(to, "%d bytes at %#x, or the memory for them, are not there", reach(k), k.w.RemoteAddr)
		return abi.IB_EVENT_QP_REQ_ERR, false
	}
	return 0, true
}

// messageSIW carries out a SEND at the peer. iWARP has no receiver-not-ready.
func (f *Fabric) messageSIW(to *pair, k *packet) (event uint32, ok bool) {
	r := to.takeRecv()
	switch {
	case r == nil:
		f.mistake(to, "a message arrived, but no receive was posted")
		return 0, false
	case len(k.data) > roomIn(r.SGL):
		f.mistake(to, "a message of %d bytes does not fit in its receive", len(k.data))
		to.qp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_LOC_LEN_ERR}, false)
		return abi.IB_EVENT_QP_FATAL, false
	case !scatter(to.qp, r.SGL, k.data):
		f.mistake(to, "a receive names memory that it may not write")
		to.qp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_GENERAL_ERR}, false)
		return abi.IB_EVENT_QP_ACCESS_ERR, false
	case k.w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_INV && !to.qp.Invalidate(k.w.Imm):
		f.mistake(to, "no key %#x to invalidate", k.w.Imm)
		to.qp.Received(r, &abi.IbUverbsWc{Status: abi.IB_WC_REM_INV_REQ_ERR}, false)
		return 0, true // siw keeps the connection
	}
	f.received(to, k, r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(k.data))})
	return 0, true
}
