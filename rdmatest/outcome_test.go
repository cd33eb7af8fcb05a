package rdmatest_test

import (
	"cmp"
	"encoding/binary"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/test/refusals"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

const (
	lost      = "1000 work request flushed, 1001 work request flushed; ERR"
	broken    = "1000 local QP operation error, 1001 work request flushed; ERR"
	untouched = "1000 work request flushed, 1001 work request flushed; RTS"
	refused   = "1 remote access error; ERR"
)

// What becomes of what is right.
func TestRXEOutcomes(t *testing.T) {
	const rc, uc, ud = verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD
	const send, arrived = verbs.OpSend, "1000 RECV success 8, 1001 work request flushed; RTS"
	runTrials(t, rdmatest.RXE, map[string]trial{
		"SEND":            {rc, send, 8, all, nil, "1 SEND success; RTS", arrived},
		"WRITE_WITH_IMM":  {rc, verbs.OpRDMAWriteImm, 8, all, nil, "1 RDMA_WRITE success; RTS", "1000 RECV_RDMA_WITH_IMM success 8, 1001 work request flushed; RTS"},
		"SEND of nothing": {rc, send, 0, all, func(wr *verbs.SendWR) { wr.SGL[0] = verbs.SGE{} }, "1 SEND success; RTS", "1000 RECV success 0, 1001 work request flushed; RTS"},
		"FETCH_ADD":       {rc, verbs.OpFetchAdd, 8, all, nil, "1 FETCH_ADD success; RTS", untouched},
		"UC SEND":         {uc, send, 8, all, nil, "1 SEND success; RTS", arrived},
		"UD SEND":         {ud, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 48, 1001 work request flushed; RTS"},
	})
}

// TestRXEFailures: what goes wrong ends as on Linux 6.12, which TestRxeErrors in package test
// holds to the same table.
func TestRXEFailures(t *testing.T) {
	for _, c := range refusals.Failures(refusals.Layout{Memory: memory, Source: sendFrom, Recv: recvSize}) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fails(t, &c) })
		})
	}
}

func fails(t *testing.T, c *refusals.Failure) {
	const peer = all &^ verbs.AccessMWBind
	f, mine, his, hisQP := rdmatest.New(t), cmp.Or(c.Mine, everything), cmp.Or(c.His, everything), peer|verbs.AccessFlushGlobal
	if c.HisQP != nil {
		hisQP = *c.HisQP
	}
	a, b := newNodeFor(t, f.Host(0).Device(0), c.Type(), mine, peer), newNodeFor(t, f.Host(1).Device(0), c.Type(), his, hisQP)
	a.meets(b)
	binary.NativeEndian.PutUint64(b.mr.Bytes(), refusals.Before)
	wr := c.Request(a.to(b, c.Op, c.Size), a.mr.SGE(sendFrom, c.Size))
	if c.Closed {
		gone := must(b.pd.AllocMR(64, all, nil))(t)
		wr.RemoteAddr, wr.RKey = gone.Addr(), gone.RKey()
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
	}
	a.post(wr)
	synctest.Wait()
	if got := binary.NativeEndian.Uint64(b.mr.Bytes()); c.Changes(got) {
		t.Errorf("%d in memory", got)
	}
	want := c.Requester
	if alive := strings.HasSuffix(c.Requester, "RTS") && strings.HasSuffix(c.Responder, "RTS"); alive && c.Type() != verbs.QPTypeRC {
		next := a.to(b, verbs.OpSend, 8)
		next.WRID = 2
		a.post(next)
		synctest.Wait()
		want = strings.Replace(want, ";", ", 2 SEND success;", 1)
	}
	if got := a.story(); got != want {
		t.Errorf("requester: %s, want %s", got, want)
	}
	if got := b.story(); got != c.Responder {
		t.Errorf("responder: %s, want %s", got, c.Responder)
	}
}

// A trial is a work request to a peer, and how it ends for both.
type trial struct {
	typ                  verbs.QPType
	op                   verbs.Opcode
	size                 int
	his                  verbs.Access // what the peer allows on its memory
	change               func(*verbs.SendWR)
	requester, responder string
}

func badRKey(wr *verbs.SendWR) { wr.RKey ^= 0x5500 }
func badLKey(wr *verbs.SendWR) { wr.SGL[0].LKey ^= 0x5500 }

func runTrials(t *testing.T, kind rdmatest.Kind, trials map[string]trial) {
	for name, c := range trials {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := two(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), c.typ, c.his)
				wr := a.to(b, c.op, c.size)
				if c.op == verbs.OpBindMW {
					wr.SGL, wr.Bind = nil, a.unbindable(t)
				}
				if c.change != nil {
					c.change(&wr)
				}
				a.post(wr)
				synctest.Wait()
				if got := a.story(); got != c.requester {
					t.Errorf("requester: %s, want %s", got, c.requester)
				}
				if got := b.story(); got != c.responder {
					t.Errorf("responder: %s, want %s", got, c.responder)
				}
			})
		})
	}
}

// unbindable is a window of a region that lets none be bound.
func (n *node) unbindable(t *testing.T) *verbs.BindMW {
	mr := closed(t, must(n.pd.AllocMR(64, verbs.AccessLocalWrite, nil))(t))
	mw := closed(t, must(n.pd.AllocMW(verbs.MWType1))(t))
	return &verbs.BindMW{MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 8, Access: verbs.AccessRemoteWrite}
}
