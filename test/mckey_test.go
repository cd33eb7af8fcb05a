//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
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

// TestMckey has C's programs and ours send to groups and receive from them, all at once,
// because the senders sleep most of the time. C's sender closes its queue pair without
// looking whether all has left, so senders run until the receivers have enough.
func TestMckey(t *testing.T) {
	only612(t)
	rxeFabric(t)
	noLeak(t)
	type group struct {
		sender, line string
		senders      []*running
		receivers    map[string]*running
	}
	groups := map[string]*group{"239.83.1.3": {sender: "Go"}, "239.83.1.4": {sender: "Go", line: " -o"}, "239.83.1.5": {sender: "C"}}
	line := func(addr string) string { return "-C 4 -S 700 -b " + rxeIPv4 + " -m " + addr }
	for addr, g := range groups {
		g.receivers = make(map[string]*running)
		for _, side := range []string{"C", "Go"} {
			if side != g.sender {
				g.receivers[side] = launch(t, cmProgram(side, "mckey", line(addr)))
				g.receivers[side+" too"] = launch(t, cmProgram(side, "mckey", line(addr)+" -c 2"))
			}
		}
	}
	for left := true; left; {
		left = false
		for addr, g := range groups {
			for _, r := range g.receivers {
				if !r.over() {
					left = true
					g.senders = append(g.senders, launch(t, cmProgram(g.sender, "mckey", "-s "+line(addr)+g.line)))
					break
				}
			}
		}
		for _, g := range groups {
			for _, r := range g.senders {
				cmProgrammed(t, g.sender, r)
			}
			g.senders = nil
		}
	}
	for _, g := range groups {
		for side, r := range g.receivers {
			cmProgrammed(t, strings.TrimSuffix(side, " too"), r)
		}
	}
}

// hearsOnly has an end send to itself. That comes behind what came before, and is the
// first that it hears.
func (e *udEnd) hearsOnly(local string) {
	e.t.Helper()
	gid := must(e.Device().ChooseGID(1, &uverbs.GIDChoice{Addr: addr(local)}))(e.t)
	ah := must(e.PD().CreateAH(&verbs.AHAttr{Global: true, DGID: gid.GID, SGIDIndex: gid.Index, Port: 1}))(e.t)
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

// igmpUsers counts the members of the group on some interface: 239.83.1.2 in the
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
	if !errors.Is(err, verbs.ErrNotSupported) || err.Error() != want {
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
			id := newID(t, ch, verbs.PortSpaceUDP)
			// The way to the group leads over the source's device.
			ok(t, id.ResolveAddr(netip.MustParseAddrPort(rxeIPv4+":0"), netip.AddrPortFrom(cmGroup, 0), patience))
			expect(t, ch, rdmacm.EventAddrResolved)
			e := d.end(t, verbs.QPTypeUD, rxeSetup{})
			attachLater(t, id, e.qp)
			m := must(id.JoinMulticast(cmGroup, flags))(t)
			ev := expect(t, ch, rdmacm.EventMulticastJoin)
			if ev.ID != id || ev.Multicast != m || ev.UD.QPNum != 0xffffff || ev.UD.QKey != cmQKey || ev.UD.AH.DGID.String() != cmGroupGID {
				t.Errorf("%+v %+v", ev, ev.UD)
			}
			ah := must(d.pd.CreateAH(&ev.UD.AH))(t)
			defer ah.Close()
			e.postRecv(7, 0, recvSize)
			send := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(sendFrom, 100)},
				AH: ah, RemoteQPN: ev.UD.QPNum, RemoteQKey: ev.UD.QKey}
			e.post(send)
			e.sent("0 SEND success")
			if flags == rdmacm.JoinFullMember {
				e.got("7 RECV success 140")
			}
			ok(t, m.Leave())
			if err := m.Leave(); !errors.Is(err, verbs.ErrClosed) {
				t.Error("left twice:", err)
			}
			e.postRecv(8, 0, recvSize)
			e.post(send)
			e.sent("0 SEND success")
			// Its messages to itself arrive behind that.
			send.SGL[0].Length, send.AH, send.RemoteQPN = 9, d.ah(t, e.address(e)), e.qp.Num()
			e.post(send)
			e.sent("0 SEND success")
			if wc := e.next(e.recvCQ); wc.ByteLen != uverbs.GRHSize+9 {
				t.Errorf("%+v came, after it left", wc)
			}
		})
	}
}
