//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

var (
	cmGroup    = netip.MustParseAddr("239.83.1.2")
	cmGroupGID = "::ffff:239.83.1.2"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// joinGroup joins the group until the test ends.
func joinGroup(t *testing.T, e *udEnd, flags rdmacm.JoinFlags) *rdmacm.Group {
	t.Helper()
	return joinThe(t, cmGroup, e, flags)
}

func joinThe(t *testing.T, group netip.Addr, e *udEnd, flags rdmacm.JoinFlags) *rdmacm.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g := must(e.JoinMulticast(ctx, group, flags))(t)
	if g.QPN != 0xffffff || g.QKey != cmQKey || g.Addr != group {
		t.Errorf("%+v", g)
	}
	return g
}

// mckeys starts some of a C program that joins the group. They then wait for 3
// seconds before they send or look what came.
func mckeys(t *testing.T, n int, group netip.Addr, options string) (all []*running) {
	t.Helper()
	for range n {
		all = append(all, launch(t, exec.Command("mckey", strings.Fields("-m "+group.String()+" -b "+rxeIPv4+" "+options)...)))
	}
	return all
}

func mckeyed(t *testing.T, group netip.Addr, r *running) {
	t.Helper()
	out := r.end()
	if out.Code != 0 || !strings.Contains(out.Out, "joined dgid: ::ffff:"+group.String()+" ") || !strings.HasSuffix(out.Out, "data transfers complete\ntest complete\nreturn status 0\n") {
		t.Errorf("%+v", out)
	}
}

// TestMckey has C's programs send to a group and receive from two, all at once,
// because they sleep most of the time.
func TestMckey(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	for _, finish := range []func(){
		mckeyReceivers(t, addr("239.83.1.3"), rdmacm.JoinFullMember),
		mckeyReceivers(t, addr("239.83.1.4"), rdmacm.JoinSendOnly),
		mckeySenders(t, addr("239.83.1.5")),
	} {
		finish()
	}
}

// mckeySenders: what C sends to the group two of our queue pairs receive. It
// closes its own without looking whether all has left, so there are three, and
// they may need to run again.
func mckeySenders(t *testing.T, group netip.Addr) (finish func()) {
	ends := []*udEnd{openUD(t, rxeIPv4, 700, 20), openUD(t, rxeIPv4, 700, 20)}
	for _, e := range ends {
		joinThe(t, group, e, rdmacm.JoinFullMember)
	}
	run := func() []*running { return mckeys(t, 3, group, "-s -C 4 -S 700") }
	senders := run()
	return func() {
		var came [2]int
		if !eventually(func() bool {
			for _, r := range senders {
				mckeyed(t, group, r)
			}
			for i, e := range ends {
				for _, wc := range e.whatCame() {
					if wc.Status != uverbs.StatusSuccess || wc.ByteLen != uverbs.GRHSize+700 || wc.Imm != wc.SrcQP || wc.Flags&uverbs.WCGRH == 0 {
						t.Errorf("%+v", wc)
					}
					came[i]++
				}
			}
			enough := came[0] > 0 && came[1] > 0
			if !enough {
				senders = run()
			}
			return enough
		}) {
			t.Error(came, "messages came, want some at each end")
		}
	}
}

// whatCame are the receives that have completed, or do so within a while. What comes
// later is left for the next look.
func (e *udEnd) whatCame() []uverbs.WC {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), 200*time.Millisecond)
	defer cancel()
	var all []uverbs.WC
	for {
		var wcs [8]uverbs.WC
		n, err := e.RecvCQ().Wait(ctx, wcs[:])
		all = append(all, wcs[:n]...)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			e.t.Fatal(err)
		}
		if err != nil || ctx.Err() != nil {
			return all
		}
	}
}

// mckeyReceivers: what we send, as a full member or to send only, two of C's
// programs receive. Nothing tells when they have joined, so we send until each has
// its ten messages and ends.
func mckeyReceivers(t *testing.T, group netip.Addr, flags rdmacm.JoinFlags) (finish func()) {
	receivers := mckeys(t, 2, group, "-C 10 -S 500")
	e := openUD(t, rxeIPv4, 500, 20)
	g := joinThe(t, group, e, flags)
	return func() {
		for _, r := range receivers {
			for !r.over() {
				e.send(&g.Peer, strings.Repeat("m", 500))
				time.Sleep(50 * time.Millisecond)
			}
			mckeyed(t, group, r)
		}
		if flags == rdmacm.JoinFullMember {
			e.receive() // it hears itself as well
		} else {
			e.hearsOnly(rxeIPv4)
		}
	}
}

// hearsOnly has an end send to itself. That comes behind what came before, and is the
// first that it hears.
func (e *udEnd) hearsOnly(local string) {
	e.t.Helper()
	gid := must(e.Device().ChooseGID(1, &uverbs.GIDChoice{Addr: addr(local)}))(e.t)
	ah := must(e.PD().CreateAH(&uverbs.AHAttr{Global: true, DGID: gid.GID, SGIDIndex: gid.Index, Port: 1}))(e.t)
	e.Own(ah)
	e.send(&rdmacm.Peer{AH: ah, QPN: e.QP().Num(), QKey: cmQKey}, "to myself")
	if got, _ := e.receive(); got != "to myself" {
		e.t.Errorf("%q came", got)
	}
}

// TestMulticastLeave: no message comes in after leaving, and the group can be
// joined again.
func TestMulticastLeave(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	sender, e := openUD(t, rxeIPv4, 64, 0), openUD(t, rxeIPv4, 64, 8)
	to := joinGroup(t, sender, rdmacm.JoinSendOnly)
	stays := openUD(t, rxeIPv4, 64, 8)
	joinGroup(t, stays, rdmacm.JoinFullMember)
	for round := range 2 {
		g := joinGroup(t, e, rdmacm.JoinFullMember)
		text := fmt.Sprint("round ", round)
		sender.send(&to.Peer, text)
		for _, member := range []*udEnd{e, stays} {
			if got, _ := member.receive(); got != text {
				t.Errorf("%q", got)
			}
		}
		for range 2 { // leaving twice is as leaving once
			if err := g.Leave(); err != nil {
				t.Fatal(err)
			}
		}
		sender.send(&to.Peer, "after")
		if got, _ := stays.receive(); got != "after" {
			t.Errorf("%q", got)
		}
		e.hearsOnly(rxeIPv4)
	}
}

// TestMulticastClose: closing the Conn leaves.
func TestMulticastClose(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	e := openUD(t, rxeIPv4, 64, 1)
	g := joinGroup(t, e, rdmacm.JoinFullMember)
	if n := igmpUsers(t); n != 1 {
		t.Error("members of the group on the interface:", n)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if n := igmpUsers(t); n != 0 {
		t.Error("members of the group on the interface:", n)
	}
	if err := g.Leave(); err != nil {
		t.Error(err)
	}
	if _, err := e.JoinMulticast(t.Context(), cmGroup, rdmacm.JoinFullMember); err == nil {
		t.Error("a closed Conn has joined")
	}
}

// igmpUsers counts who has joined the group on some interface: 239.83.1.2 in the
// kernel's spelling.
func igmpUsers(t *testing.T) int {
	t.Helper()
	return strings.Count(sh(t, "cat /proc/net/igmp"), "020153EF")
}

// TestMulticastIPv6: there is none over RoCE v2, and the error says so.
func TestMulticastIPv6(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	e := openUD(t, rxeIPv6, 64, 0)
	_, err := e.JoinMulticast(t.Context(), addr("ff15::8312"), rdmacm.JoinFullMember)
	want := "rdmacm: join multicast group ff15::8312: operation not supported (the kernel has no IPv6 multicast over RoCE v2)"
	if !errors.Is(err, uverbs.ErrNotSupported) || err.Error() != want {
		t.Error(err)
	}
}

// TestMulticastEvents joins call by call: the attached queue pair takes part by
// itself, as with librdmacm, until it leaves.
func TestMulticastEvents(t *testing.T) {
	d := openRxe(t)
	for name, flags := range map[string]rdmacm.JoinFlags{"full member": rdmacm.JoinFullMember, "send only": rdmacm.JoinSendOnly} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			ch := newChannel(t)
			id := newID(t, ch, rdmacm.PortSpaceUDP)
			// The way to the group leads over the source's device.
			ok(t, id.ResolveAddr(netip.MustParseAddrPort(rxeIPv4+":0"), netip.AddrPortFrom(cmGroup, 0), patience))
			expect(t, ch, rdmacm.EventAddrResolved)
			e := d.end(t, uverbs.QPTypeUD, rxeSetup{})
			attachLater(t, id, e.qp)
			m := must(id.JoinMulticast(cmGroup, flags))(t)
			ev := expect(t, ch, rdmacm.EventMulticastJoin)
			if ev.ID != id || ev.Multicast != m || ev.UD.QPNum != 0xffffff || ev.UD.QKey != cmQKey || ev.UD.AH.DGID.String() != cmGroupGID {
				t.Errorf("%+v %+v", ev, ev.UD)
			}
			ah := must(d.pd.CreateAH(&ev.UD.AH))(t)
			defer ah.Close()
			e.postRecv(7, 0, recvSize)
			send := uverbs.SendWR{Opcode: uverbs.OpSend, Flags: uverbs.SendSignaled, SGL: []uverbs.SGE{e.mr.SGE(sendFrom, 100)},
				AH: ah, RemoteQPN: ev.UD.QPNum, RemoteQKey: ev.UD.QKey}
			e.post(send)
			e.sent("0 SEND success")
			if flags == rdmacm.JoinFullMember {
				e.got("7 RECV success 140")
			}
			ok(t, m.Leave())
			if err := m.Leave(); !errors.Is(err, uverbs.ErrClosed) {
				t.Error("left twice:", err)
			}
			e.postRecv(8, 0, recvSize)
			e.post(send)
			e.sent("0 SEND success")
			// What it sends to itself comes behind that.
			send.SGL[0].Length, send.AH, send.RemoteQPN = 9, d.ah(t, e.address(e)), e.qp.Num()
			e.post(send)
			e.sent("0 SEND success")
			if wc := e.next(e.recvCQ); wc.ByteLen != uverbs.GRHSize+9 {
				t.Errorf("%+v came, after it left", wc)
			}
		})
	}
}
