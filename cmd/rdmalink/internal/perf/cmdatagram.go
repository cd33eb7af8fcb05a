package perf

import (
	"context"
	"fmt"
	"runtime"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// For datagrams, rdma_cm gives only the client the address of the server. If the
// server sends too, the client first sends it a datagram with its QP number as
// immediate data.

// answered reports whether the server sends.
func (o *Options) answered() bool { return o.Latency || o.Bidirectional }

const introduction = 4 // bytes, whose content is ignored

// expectClient posts the receive for a client's first datagram.
//
// C: rdma_cm_request_ud_connection_parameters
func (e *end) expectClient(f *flow, conn *rdmacm.Conn) error {
	if e.Type != verbs.QPTypeUD || !e.answered() || e.client() {
		return nil
	}
	sge := e.mr.SGE(e.front+f.index*e.part, uverbs.GRHSize+introduction)
	_, err := conn.QP().PostRecv([]verbs.RecvWR{{WRID: uint64(f.index), SGL: []verbs.SGE{sge}}})
	return err
}

// acquaint has each end of a flow know where to send.
func (e *end) acquaint(ctx context.Context, f *flow, conn *rdmacm.Conn) error {
	switch {
	case e.Type != verbs.QPTypeUD:
		return nil
	case e.client():
		p := conn.Peer()
		f.to = datagramPeer{p.AH, p.QPN, p.QKey}
		if !e.answered() {
			return nil
		}
		return e.introduce(ctx, f)
	case e.answered():
		return e.meetClient(ctx, f)
	}
	return nil
}

// C: rdma_cm_send_ud_connection_parameters
func (e *end) introduce(ctx context.Context, f *flow) error {
	wr := verbs.SendWR{WRID: uint64(f.index), Opcode: verbs.OpSendImm, Flags: verbs.SendSignaled, Imm: f.qp.Num(),
		SGL: []verbs.SGE{e.mr.SGE(f.index*e.part, introduction)}, AH: f.to.ah, RemoteQPN: f.to.qpn, RemoteQKey: f.to.qkey}
	if _, err := f.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	_, err := e.await(ctx, e.sendCQ)
	return err
}

// C: rdma_cm_initialize_ud_connection_parameters
func (e *end) meetClient(ctx context.Context, f *flow) error {
	wc, err := e.await(ctx, e.recvCQ)
	if err != nil {
		return fmt.Errorf("wait for the client's first datagram: %w", err)
	}
	qpn, err := introduced(&wc)
	if err != nil {
		return err
	}
	ah, err := e.pd.AHFromWC(e.Port, &wc, e.mr.Bytes()[e.front+f.index*e.part:][:uverbs.GRHSize])
	if err != nil {
		return err
	}
	e.own(ah)
	attr, err := f.qp.Query()
	if err != nil {
		return err
	}
	f.to = datagramPeer{ah, qpn, attr.QKey}
	return nil
}

// introduced is the number of the client's QP, in the immediate data of its first
// datagram.
func introduced(wc *verbs.WC) (uint32, error) {
	switch {
	case wc.Flags&verbs.WCWithImm == 0:
		return 0, fmt.Errorf("the client's first datagram has no immediate data, which should be the number of its QP")
	case wc.Imm > maxQPN:
		return 0, fmt.Errorf("the client's first datagram has %#x as immediate data, which is no QP's number", wc.Imm)
	}
	return wc.Imm, nil
}

// maxQPN is the largest number of a QP that a packet has room for.
const maxQPN = 1<<24 - 1

// await takes one completion, before the test.
func (e *end) await(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	for {
		n, err := cq.Poll(wcs[:])
		switch {
		case err != nil:
			return wcs[0], err
		case n > 0:
			return wcs[0], wcs[0].Err()
		case ctx.Err() != nil:
			return wcs[0], ctx.Err()
		}
		runtime.Gosched()
	}
}
