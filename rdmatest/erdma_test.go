package rdmatest_test

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// end is a side of a connection, with a region that the peer may do anything to.
type end struct {
	*rdmacm.Conn
	mr *uverbs.MR
}

func newEnd(t *testing.T, c *rdmacm.Conn) end {
	t.Helper()
	mr, err := c.QP().PD().AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mr.Close() })
	return end{c, mr}
}

func (e end) sge(t *testing.T, n int) []verbs.SGE {
	t.Helper()
	return []verbs.SGE{e.mr.SGE(0, n)}
}

func one(t *testing.T, cq *uverbs.CQ) verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 2)
	n, err := cq.Poll(wcs)
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	return wcs[0]
}

// onRoCE is two hosts with a device of eRDMA on RoCE v2 each.
func onRoCE(t *testing.T, strict bool) *rdmatest.Fabric {
	host := rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.ERDMA, RoCE: true}}}
	return rdmatest.NewWith(t, &rdmatest.Options{Hosts: []rdmatest.HostOptions{host, host}, Strict: strict})
}

// TestERDMA has what siw lacks: immediate data, atomics, keys that end.
func TestERDMA(t *testing.T) {
	t.Run("iWARP", func(t *testing.T) {
		messagesOfERDMA(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.ERDMA, Strict: true}))
	})
	t.Run("RoCE", func(t *testing.T) { messagesOfERDMA(t, onRoCE(t, true)) })
}

func messagesOfERDMA(t *testing.T, f *rdmatest.Fabric) {
	dialled, accepted := meet(t, f, nil)
	a, b := newEnd(t, dialled), newEnd(t, accepted)
	remote := verbs.SendWR{Flags: verbs.SendSignaled, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: a.sge(t, 8)}
	word := b.mr.Bytes()[:8]
	for _, c := range []struct {
		op          verbs.Opcode
		change      func(*verbs.SendWR)
		flags       verbs.WCFlags // of the receive that it takes
		before, now uint64        // of the peer's word
	}{
		{verbs.OpFetchAdd, func(wr *verbs.SendWR) { wr.CompareAdd = 5 }, 0, 0, 5},
		{verbs.OpCompareSwap, func(wr *verbs.SendWR) { wr.CompareAdd, wr.Swap = 5, 7 }, 0, 5, 7},
		{verbs.OpRDMAWriteImm, func(wr *verbs.SendWR) { wr.Imm = 99 }, verbs.WCWithImm, 0, 5},
		{verbs.OpSendImm, func(wr *verbs.SendWR) { wr.Imm = 99 }, verbs.WCWithImm, 0, 5},
	} {
		if c.flags != 0 {
			if _, err := b.QP().PostRecv([]verbs.RecvWR{{SGL: b.sge(t, 8)}}); err != nil {
				t.Fatal(err)
			}
		}
		wr := remote
		wr.Opcode = c.op
		c.change(&wr)
		if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(c.op, err)
		}
		if wc := one(t, a.QP().SendCQ()); wc.Err() != nil {
			t.Error(c.op, wc.Err())
		}
		if c.flags != 0 {
			if wc := one(t, b.QP().RecvCQ()); wc.Err() != nil || wc.Flags != c.flags || wc.Imm != 99 {
				t.Errorf("%v: %+v", c.op, wc)
			}
		} else if got := binary.NativeEndian.Uint64(a.mr.Bytes()); got != c.before {
			t.Errorf("%v returns %d, want %d", c.op, got, c.before)
		}
		if got := binary.NativeEndian.Uint64(word); got != c.now {
			t.Errorf("%v leaves %d, want %d", c.op, got, c.now)
		}
	}
	inv := remote
	inv.Opcode, inv.InvalidateRKey = verbs.OpSendWithInv, b.mr.RKey()
	recv, err := b.QP().PD().AllocMR(64, verbs.AccessLocalWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer recv.Close()
	if _, err := b.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{recv.SGE(0, 8)}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.QP().PostSend([]verbs.SendWR{inv}); err != nil {
		t.Fatal(err)
	}
	if wc := one(t, b.QP().RecvCQ()); wc.Err() != nil || wc.InvalidatedRKey() != b.mr.RKey() {
		t.Errorf("%+v", wc)
	}
}

// TestERDMAErrors checks which mistakes end a connection, and the status of the send.
func TestERDMAErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(wr *verbs.SendWR, a, b end)
		want   verbs.Status
		vendor uint32
	}{
		"unknown key":      {func(wr *verbs.SendWR, a, _ end) { wr.SGL[0].LKey += 0x5500 }, verbs.StatusLocAccessErr, 0x30},
		"outside":          {func(wr *verbs.SendWR, a, _ end) { wr.SGL[0].Addr += 4096 }, verbs.StatusLocAccessErr, 0x31},
		"around":           {func(wr *verbs.SendWR, a, _ end) { wr.SGL[0].Addr = 1<<64 - 4 }, verbs.StatusLocAccessErr, 0x34},
		"peer's key":       {func(wr *verbs.SendWR, _, b end) { wr.RKey += 0x5500 }, verbs.StatusRemAccessErr, 2},
		"no receive there": {func(wr *verbs.SendWR, _, _ end) { wr.Opcode = verbs.OpSend }, verbs.StatusGeneralErr, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.ERDMA})
			dialled, accepted := meet(t, f, nil)
			a, b := newEnd(t, dialled), newEnd(t, accepted)
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), SGL: a.sge(t, 8)}
			c.change(&wr, a, b)
			if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
			if wc := one(t, a.QP().SendCQ()); wc.Status != c.want || wc.VendorErr != c.vendor {
				t.Errorf("%+v", wc)
			}
		})
	}
}

// TestERDMARoCE connects queue pairs by hand. Mistakes end a connection as on iWARP.
func TestERDMARoCE(t *testing.T) {
	const rc = verbs.QPTypeRC
	const broken, flushed = "1 remote access error; ERR", "1000 work request flushed, 1001 work request flushed; ERR"
	runTrialsOn(t, func(t *testing.T) *rdmatest.Fabric { return onRoCE(t, false) }, map[string]trial{
		"SEND":                        {rc, verbs.OpSend, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 8, 1001 work request flushed; RTS"},
		"SEND, local key":             {rc, verbs.OpSend, 8, all, badLKey, "1 local access error; ERR", "1000 work request flushed, 1001 work request flushed; RTS"},
		"SEND, receive too short":     {rc, verbs.OpSend, recvSize + 1, all, nil, broken, "1000 remote access error, 1001 work request flushed; ERR"},
		"WRITE, remote key":           {rc, verbs.OpRDMAWrite, 8, all, badRKey, broken, flushed},
		"READ, remote key":            {rc, verbs.OpRDMARead, 8, all, badRKey, broken, flushed},
		"atomic, not a multiple of 8": {rc, verbs.OpFetchAdd, 8, all, func(wr *verbs.SendWR) { wr.RemoteAddr++ }, broken, flushed},
	})
}

// TestERDMARoCERetries checks that packets that nobody answers are sent again for half a second,
// whatever the timeout and the retry count of the queue pair; so are messages for which there is no
// receive.
func TestERDMARoCERetries(t *testing.T) {
	for name, c := range map[string]struct {
		lost    bool
		receive time.Duration // when there is a third receive
		want    string
	}{
		"a receive in time":        {false, 400 * time.Millisecond, "1 SEND success; RTS"},
		"a receive that is late":   {false, 600 * time.Millisecond, "1 transport retries exceeded; ERR"},
		"nothing of it gets there": {true, time.Hour, "1 transport retries exceeded; ERR"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := onRoCE(t, false)
				a, b := two(t, f, verbs.QPTypeRC, all)
				for range 2 {
					a.post(a.to(b, verbs.OpSend, 8))
					a.next()
				}
				if c.lost {
					f.SetLoss(1)
				}
				time.AfterFunc(c.receive, func() { b.receive(1002, 0, recvSize) })
				a.post(a.to(b, verbs.OpSend, 8))
				time.Sleep(550 * time.Millisecond)
				if got := a.story(); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				time.Sleep(c.receive)
			})
		})
	}
}

// TestERDMAApart checks that devices on iWARP and on RoCE know nothing of each other.
func TestERDMAApart(t *testing.T) {
	hosts := []rdmatest.HostOptions{
		{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.ERDMA}}},
		{Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.ERDMA, RoCE: true}}},
	}
	f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: hosts})
	l := closed(t, must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":0"))(t))
	if _, err := rdmacm.Dial(f.Host(0).Context(t.Context()), l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	for i, want := range []verbs.NodeType{verbs.NodeRNIC, verbs.NodeCA} {
		dev := closed(t, must(uverbs.Open(f.Host(i).Device(0).Name()))(t))
		gid := must(dev.ChooseGID(1, nil))(t)
		if got := dev.Info().NodeType; got != want || (gid.Type == verbs.GIDTypeRoCEv2) != (want == verbs.NodeCA) {
			t.Errorf("host %d: %v, %v", i, got, gid.Type)
		}
	}
}
