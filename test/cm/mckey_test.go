//go:build vm

package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
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
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	g := kit.Must(e.JoinMulticast(ctx, group, flags))(t)
	if g.QPN != 0xffffff || g.QKey != cmQKey || g.Addr != group {
		t.Errorf("%+v", g)
	}
	return g
}

// TestMckey sends to groups and receives from them, with C's programs and ours. All run concurrently,
// because the senders sleep most of the time. C's sender closes its queue pair before all messages have
// left, so senders run until the receivers have enough.
func TestMckey(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	kit.NoLeak(t)
	type group struct {
		sender, line string
		senders      []*kit.Running
		receivers    map[string]*kit.Running
	}
	groups := map[string]*group{"239.83.1.3": {sender: "Go"}, "239.83.1.4": {sender: "Go", line: " -o"}, "239.83.1.5": {sender: "C"}}
	line := func(addr string) string { return "-C 4 -S 700 -b " + kit.RxeIPv4 + " -m " + addr }
	for addr, g := range groups {
		g.receivers = make(map[string]*kit.Running)
		for _, side := range []string{"C", "Go"} {
			if side != g.sender {
				g.receivers[side] = kit.Launch(t, cmProgram(side, "mckey", line(addr)))
				g.receivers[side+" too"] = kit.Launch(t, cmProgram(side, "mckey", line(addr)+" -c 2"))
			}
		}
	}
	for left := true; left; {
		left = false
		for addr, g := range groups {
			for _, r := range g.receivers {
				if !r.Over() {
					left = true
					g.senders = append(g.senders, kit.Launch(t, cmProgram(g.sender, "mckey", "-s "+line(addr)+g.line)))
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

// hearsOnly makes an end send to itself. The message arrives after all earlier ones, and must be the
// first that the end receives.
func (e *udEnd) hearsOnly(local string) {
	e.T.Helper()
	gid := kit.Must(e.Device().ChooseGID(1, &uverbs.GIDChoice{Addr: addr(local)}))(e.T)
	ah := kit.Must(e.PD().CreateAH(&verbs.AHAttr{Global: true, DGID: gid.GID, SGIDIndex: gid.Index, Port: 1}))(e.T)
	e.Own(ah)
	e.send(&rdmacm.Peer{AH: ah, QPN: e.QP().QPN(), QKey: cmQKey}, "to myself")
	if got, _ := e.receive(); got != "to myself" {
		e.T.Errorf("%q came", got)
	}
}

// TestMulticastLeave checks that after leaving a group, no message of it arrives, and the group can be joined again.
func TestMulticastLeave(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	sender, e := openUD(t, kit.RxeIPv4, 64, 0), openUD(t, kit.RxeIPv4, 64, 8)
	to := joinGroup(t, sender, rdmacm.JoinSendOnly)
	stays := openUD(t, kit.RxeIPv4, 64, 8)
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
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("left twice: %v", err)
		}
		sender.send(&to.Peer, "after")
		if got, _ := stays.receive(); got != "after" {
			t.Errorf("%q", got)
		}
		e.hearsOnly(kit.RxeIPv4)
	}
}

// TestMulticastClose checks that closing the Conn leaves the group.
func TestMulticastClose(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	e := openUD(t, kit.RxeIPv4, 64, 1)
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
	if err := g.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("left a closed Conn: %v", err)
	}
	if _, err := e.JoinMulticast(t.Context(), cmGroup, rdmacm.JoinFullMember); err == nil {
		t.Error("a closed Conn has joined")
	}
}

// igmpUsers returns the number of members of the group 239.83.1.2 on all interfaces.
func igmpUsers(t *testing.T) int {
	t.Helper()
	return strings.Count(kit.Sh(t, "cat /proc/net/igmp"), "020153EF")
}

// TestMulticastIPv6 checks that RoCE v2 has no multicast over IPv6, and the error says so.
func TestMulticastIPv6(t *testing.T) {
	kit.RxeFabric(t)
	kit.NoLeak(t)
	e := openUD(t, kit.RxeIPv6, 64, 0)
	_, err := e.JoinMulticast(t.Context(), addr("ff15::8312"), rdmacm.JoinFullMember)
	want := "join multicast group ff15::8312 on " + kit.RxeLink + " (driver rxe): operation not supported: the kernel has no IPv6 multicast over RoCE v2"
	if !errors.Is(err, verbs.ErrNotSupported) || err.Error() != want {
		t.Error(err)
	}
}

// TestMulticastEvents joins with single calls. As with librdmacm, the attached queue pair receives
// messages of the group without further calls, until it leaves.
func TestMulticastEvents(t *testing.T) {
	d := kit.OpenRxe(t)
	for name, flags := range map[string]rdmacm.JoinFlags{"full member": rdmacm.JoinFullMember, "send only": rdmacm.JoinSendOnly} {
		t.Run(name, func(t *testing.T) {
			kit.NoLeak(t)
			ch := newChannel(t)
			id := newID(t, ch, verbs.PortSpaceUDP)
			// The source address selects the device for the group.
			kit.OK(t, id.ResolveAddr(netip.MustParseAddrPort(kit.RxeIPv4+":0"), netip.AddrPortFrom(cmGroup, 0), kit.Patience))
			expect(t, ch, rdmacm.EventAddrResolved)
			e := d.End(t, verbs.QPTypeUD, kit.RxeSetup{})
			attachLater(t, id, e.QP)
			m := kit.Must(id.JoinMulticast(cmGroup, flags))(t)
			ev := expect(t, ch, rdmacm.EventMulticastJoin)
			if ev.ID != id || ev.Multicast != m || ev.UD.QPN != 0xffffff || ev.UD.QKey != cmQKey || ev.UD.AH.DGID.String() != cmGroupGID {
				t.Errorf("%+v %+v", ev, ev.UD)
			}
			ah := kit.Must(d.PD.CreateAH(&ev.UD.AH))(t)
			defer ah.Close()
			e.PostRecv(7, 0, kit.RecvSize)
			send := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.MR.SGE(kit.SendFrom, 100)},
				AH: ah, RemoteQPN: ev.UD.QPN, RemoteQKey: ev.UD.QKey}
			e.Post(send)
			e.Sent("0 SEND success")
			if flags == rdmacm.JoinFullMember {
				e.Got("7 RECV success 140")
			}
			kit.OK(t, m.Close())
			if err := m.Close(); !errors.Is(err, verbs.ErrClosed) {
				t.Error("left twice:", err)
			}
			e.PostRecv(8, 0, kit.RecvSize)
			e.Post(send)
			e.Sent("0 SEND success")
			// A message to itself arrives after those of the group.
			send.SGL[0].Length, send.AH, send.RemoteQPN = 9, d.Ah(t, e.Address(e)), e.QP.QPN()
			e.Post(send)
			e.Sent("0 SEND success")
			if wc := e.Next(e.RecvCQ); wc.ByteLen != uverbs.GRHSize+9 {
				t.Errorf("%+v came, after it left", wc)
			}
		})
	}
}
