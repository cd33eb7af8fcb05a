package rdmatest

import (
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// erdmaRules are the rules of eRDMA. Connections are TCP connections and end after the same mistakes as
// with iWARP, but the peer answers every message.
type erdmaRules struct{ iwarpRules }

func (erdmaRules) check(f *Fabric, p *pair, k *packet) (status uint32) {
	ok := k.w.Opcode != fakeverbs.NoOpcode
	switch {
	case k.w.Opcode == abi.IB_UVERBS_WR_LOCAL_INV:
		ok = p.qp.Invalidate(k.w.Imm)
	case ok && fetches(k.w):
		ok = mayWrite(p.qp, k.w.SGL)
	case ok:
		ok = gather(p.qp, k)
	}
	if !ok {
		f.mistake(p, "a send uses local memory outside its PD, or an invalid local key")
		p.qp.Raise(abi.IB_EVENT_QP_FATAL)
		return abi.IB_WC_LOC_PROT_ERR
	}
	return abi.IB_WC_SUCCESS
}

func (erdmaRules) acknowledges(*fakeverbs.QP, *fakeverbs.Work) bool { return true }

func (erdmaRules) deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration) {
	to := p.other(f)
	switch {
	case to == nil:
		return abi.IB_WC_RETRY_EXC_ERR, 0
	case f.loses():
		return 0, retransmission
	case k.cut >= 0:
		f.cut(p, to, k)
		return 0, 0
	}
	status = f.serveERDMA(p, to, k)
	if status != abi.IB_WC_SUCCESS {
		to.qp.Raise(abi.IB_EVENT_QP_FATAL)
		to.qp.Break()
	}
	return status, 0
}

// erdmaRoCERules are the rules of eRDMA on RoCE v2. The same mistakes as on iWARP end a connection, but
// unanswered packets are sent again. Packets without a receive are sent again too, because the device
// has no status for that.
type erdmaRoCERules struct{ erdmaRules }

func (erdmaRoCERules) blocked(*pair) bool { return false }

func (erdmaRoCERules) ended(*Fabric, *pair) {}

func (erdmaRoCERules) deliver(f *Fabric, p *pair, k *packet) (status uint32, again time.Duration) {
	to := f.connected(p)
	switch {
	case k.givenUp:
		return abi.IB_WC_RETRY_EXC_ERR, 0
	case to == nil || f.loses() || takes(k.w) && !to.hasRecv():
		// The driver passes neither the timeout nor the retry counts of a queue pair to the device.
		const tries, wait = 7, 67 * time.Millisecond
		k.tries++
		k.givenUp = k.tries > tries
		return 0, wait
	case k.cut >= 0:
		f.cut(p, to, k)
		return 0, 0
	}
	status = f.serveERDMA(p, to, k)
	if status != abi.IB_WC_SUCCESS {
		to.qp.Raise(abi.IB_EVENT_QP_FATAL)
		to.qp.Break()
		to.end(f)
	}
	return status, 0
}

// hasRecv reports whether a message would find a receive.
func (p *pair) hasRecv() bool {
	if p.d.stalled {
		return false
	}
	_, ok := p.qp.PeekRecv()
	return ok
}

// serveERDMA carries out a message at the peer.
func (f *Fabric) serveERDMA(p, to *pair, k *packet) (status uint32) {
	if right(k.w) == 0 {
		return f.messageERDMA(to, k)
	}
	deny := func() uint32 {
		f.mistake(to, "key %#x does not allow access to %d bytes at %#x", k.w.RKey, reach(k), k.w.RemoteAddr)
		return abi.IB_WC_REM_ACCESS_ERR
	}
	switch {
	case !aligned(k.w) || !isOpen(to, k):
		return deny()
	case p.qp.FetchFrom(to.qp, k.w):
		return abi.IB_WC_SUCCESS
	case fetches(k.w):
		data, ok := f.fetch(to, k)
		if !ok {
			return deny()
		}
		if !scatter(p.qp, k.w.SGL, data) {
			return abi.IB_WC_LOC_PROT_ERR
		}
		endSink(p.qp, k.w)
		return abi.IB_WC_SUCCESS
	case len(k.data) > 0 && !place(to, k.w, k.data):
		return deny()
	}
	if !hasImm(k.w) {
		return abi.IB_WC_SUCCESS
	}
	r := to.takeRecv()
	if r == nil {
		f.mistake(to, "immediate data arrived, but no receive was posted")
		return abi.IB_WC_REM_OP_ERR
	}
	f.received(to, k, r, &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV_RDMA_WITH_IMM, ByteLen: uint32(len(k.data))})
	return abi.IB_WC_SUCCESS
}

// messageERDMA carries out a SEND at the peer. If there is no receive, or the message is too long for
// it, the result is the same as with iWARP.
func (f *Fabric) messageERDMA(to *pair, k *packet) (status uint32) {
	r := to.takeRecv()
	if r == nil {
		f.mistake(to, "a message arrived, but no receive was posted")
		return abi.IB_WC_REM_OP_ERR
	}
	wc := &abi.IbUverbsWc{Opcode: abi.IB_WC_RECV, ByteLen: uint32(len(k.data))}
	switch {
	case len(k.data) > roomIn(r.SGL):
		f.mistake(to, "a message of %d bytes does not fit in its receive", len(k.data))
		wc.Status = abi.IB_WC_LOC_LEN_ERR
	case !scatter(to.qp, r.SGL, k.data):
		f.mistake(to, "a receive names memory that it may not write")
		wc.Status = abi.IB_WC_LOC_PROT_ERR
	case k.w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_INV && !to.qp.Invalidate(k.w.Imm):
		f.mistake(to, "no key %#x to invalidate", k.w.Imm)
		wc.Status = abi.IB_WC_REM_INV_REQ_ERR
	}
	if wc.Status != abi.IB_WC_SUCCESS {
		to.qp.Received(r, wc, false)
		return abi.IB_WC_REM_ACCESS_ERR
	}
	if k.w.Opcode == abi.IB_UVERBS_WR_SEND_WITH_INV {
		wc.Ex, wc.WcFlags = k.w.Imm, abi.IB_WC_WITH_INVALIDATE
	}
	f.received(to, k, r, wc)
	return abi.IB_WC_SUCCESS
}
