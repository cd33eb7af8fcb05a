package rdmatest_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// What goes wrong over iWARP ends the connection. TestFailureStatus in package test says
// the same of Linux.
func TestSIWOutcomes(t *testing.T) {
	badRKey := func(wr *uverbs.SendWR) { wr.RKey ^= 0x5500 }
	badLKey := func(wr *uverbs.SendWR) { wr.SGL[0].LKey ^= 0x5500 }
	beyond := func(wr *uverbs.SendWR) { wr.RemoteAddr += memory - 4 }
	const flushedRecv = "1000 work request flushed"
	for name, c := range map[string]struct {
		op                   uverbs.Opcode
		size                 int
		change               func(*uverbs.SendWR)
		requester, responder string
	}{
		"SEND, receive too short": {uverbs.OpSend, recvSize + 1, nil, "1 SEND success", "1000 local length error"},
		"WRITE, remote key":       {uverbs.OpRDMAWrite, 8, badRKey, "1 RDMA_WRITE success", flushedRecv},
		"WRITE, remote range":     {uverbs.OpRDMAWrite, 8, beyond, "1 RDMA_WRITE success", flushedRecv},
		"READ, remote key":        {uverbs.OpRDMARead, 8, badRKey, "1 work request flushed", flushedRecv},
		"SEND, local key":         {uverbs.OpSend, 8, badLKey, "1 local QP operation error", flushedRecv},
		"READ, local key":         {uverbs.OpRDMARead, 8, badLKey, "1 local protection error", flushedRecv},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := meet(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW}), nil)
				from, to := region(t, a), region(t, b)
				if _, err := b.QP().PostRecv([]uverbs.RecvWR{{WRID: 1000, SGL: []uverbs.SGE{to.SGE(0, recvSize)}}}); err != nil {
					t.Fatal(err)
				}
				wr := uverbs.SendWR{WRID: 1, Opcode: c.op, Flags: uverbs.SendSignaled, SGL: []uverbs.SGE{from.SGE(0, c.size)}, RemoteAddr: to.Addr(), RKey: to.RKey()}
				if c.change != nil {
					c.change(&wr)
				}
				if _, err := a.QP().PostSend([]uverbs.SendWR{wr}); err != nil {
					t.Fatal(err)
				}
				<-a.Done()
				<-b.Done()
				if got := outcome(poll(t, a.SendCQ())); got != c.requester {
					t.Errorf("requester: %s, want %s", got, c.requester)
				}
				if got := outcome(poll(t, b.RecvCQ())); got != c.responder {
					t.Errorf("responder: %s, want %s", got, c.responder)
				}
				if err := errors.Join(a.Err(), b.Err()); !errors.Is(err, rdmacm.ErrDisconnected) {
					t.Error(err)
				}
			})
		})
	}
}

// region is memory of a connection's that both ends may use.
func region(t *testing.T, c *rdmacm.Conn) *uverbs.MR {
	t.Helper()
	mr := must(c.PD().AllocMR(memory, all&^uverbs.AccessMWBind, nil))(t)
	c.Own(mr)
	return mr
}

func poll(t *testing.T, cq *uverbs.CQ) uverbs.WC {
	t.Helper()
	wcs := make([]uverbs.WC, 1)
	if n, err := cq.Poll(wcs); n == 0 || err != nil {
		t.Fatal("no completion", err)
	}
	return wcs[0]
}
