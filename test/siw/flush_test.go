//go:build vm

package siw

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// TestFlush checks that work that waits when a connection ends is flushed, in order. So is work that is posted
// afterwards, which siw itself would keep for ever.
func TestFlush(t *testing.T) {
	kit.Fabric(t)
	waiting := []string{"1000 RECV work request flushed", "1001 RECV work request flushed", "1002 RECV work request flushed"}
	for _, test := range []struct {
		name  string
		recvs int
		end   func(e, peer *kit.End) error
		want  []string
	}{
		{"peer disconnects, receives wait", 3, func(_, peer *kit.End) error { return peer.Disconnect() }, waiting},
		{"peer disconnects, nothing waits", 0, func(_, peer *kit.End) error { return peer.Disconnect() }, nil},
		{"we disconnect, receives wait", 3, func(e, _ *kit.End) error { return e.Disconnect() }, waiting},
		{"we disconnect, nothing waits", 0, func(e, _ *kit.End) error { return e.Disconnect() }, nil},
		{"peer closes, nothing waits", 0, func(_, peer *kit.End) error { return peer.Close() }, nil},
		{"moved to ERR, receives wait", 3, func(e, _ *kit.End) error {
			return e.QP().Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
		}, waiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit.NoLeak(t)
			e, peer := connect(t, kit.Setup{Recvs: test.recvs}, kit.Setup{})
			if err := test.end(e, peer); err != nil {
				t.Fatal(err)
			}
			e.Ended()
			for range 2 { // and again
				if diff := cmp.Diff(test.want, flushed(e)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				test.want = nil
			}
			room := int(e.QP().Cap().MaxRecvWR)
			for range room {
				postRecv(e, verbs.RecvWR{WRID: 5})
			}
			for range room {
				e.Got("5 RECV work request flushed")
			}
		})
	}
}

// TestPeerKilled kills a process in the middle of a transfer. The other one sees
// the connection end, and all its own work requests complete.
func TestPeerKilled(t *testing.T) {
	kit.Fabric(t)
	// Flushed, unless the kernel was sending just then and met the reset.
	peerKilled(t, kit.DummyIPv4+":0", verbs.StatusWRFlushErr, verbs.StatusLocQPOpErr)
}

// TestRxeCMPeerKilled is the same over RoCE, where the kernel says goodbye for the
// dead process. Before, a request may find its memory gone.
func TestRxeCMPeerKilled(t *testing.T) {
	kit.RxeFabric(t)
	peerKilled(t, kit.RxeIPv4+":0", verbs.StatusWRFlushErr, verbs.StatusRemAccessErr)
}

// peerKilled does so at an address. The worst end of the survivor's work requests
// is one of those.
func peerKilled(t *testing.T, address string, ends ...verbs.Status) {
	for _, test := range []struct {
		name             string
		victim, survivor verbs.Opcode
	}{
		{"it writes", verbs.OpRDMAWrite, kit.Idle},
		{"it reads", verbs.OpRDMARead, kit.Idle},
		{"we write", kit.Idle, verbs.OpRDMAWrite},
		{"we read", kit.Idle, verbs.OpRDMARead},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit.NoLeak(t)
			ln := kit.Must(rdmacm.Listen(t.Context(), address))(t)
			kit.CloseLater(t, ln)
			p := kit.Start(t, kit.Child("transfer", ln.Addr().String(), strconv.Itoa(int(test.victim))))
			ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
			defer cancel()
			e := &kit.End{T: t}
			e.Conn = kit.Must(kit.Must(ln.Next(ctx))(t).Accept(ctx, e.Config(kit.Setup{Size: kit.KillSize, Recvs: 2})))(t)
			kit.CloseLater(t, e)
			p.Line(t) // it is under way
			kill := func() { p.Process.Kill() }
			orderly := true
			if test.survivor == kit.Idle {
				kill()
			} else {
				status, err := e.Stream(ctx, test.survivor, kill)
				if !slices.Contains(ends, status) || err != nil {
					t.Errorf("the stream ended with %v, %v", status, err)
				}
				orderly = false // a failed work request may be the first sign of the end
			}
			err := e.Ended()
			failed := slices.ContainsFunc(ends, func(s verbs.Status) bool { return errors.Is(err, s) })
			if !errors.Is(err, rdmacm.ErrDisconnected) && (orderly || !failed) {
				t.Error(err)
			}
			for i := range uint64(2) { // of a failed one rxe does not say that it is a receive
				if wc := e.Next(e.RecvCQ()); wc.WRID != 1000+i || wc.Status != verbs.StatusWRFlushErr {
					t.Errorf("receive %d: %+v", i, wc)
				}
			}
		})
	}
}

// TestWaitsEnd checks that each wait for a kernel that stays silent ends with its context. Others of rdmacm's are in
// TestCMCancel.
func TestWaitsEnd(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	// The far end receives the packets for this address and drops them.
	kit.Sh(t, `ip neigh replace 10.82.0.77 dev gvhere nud permanent lladdr $(ip netns exec gvfar cat /sys/class/net/gvthere/address)`)
	kit.Cancelled(t, "CQ", "(*CQ).Wait", func(ctx context.Context) error { _, err := k.cq.Wait(ctx, make([]verbs.WC, 1)); return err })
	kit.Cancelled(t, "async event", "(*Device).AsyncEvent", func(ctx context.Context) error { _, err := k.dev.AsyncEvent(ctx); return err })
	dial := func(address string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, address); return err }
	}
	kit.Cancelled(t, "dial, no answer to TCP", "(*ID).Connect", dial("10.82.0.77:1"))
	kit.Cancelled(t, "dial, no answer to ARP", "rdmacm.(*Dialer).dialAddr", dial("10.82.0.99:1"))
}
