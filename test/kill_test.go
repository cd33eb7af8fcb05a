//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

const (
	killAfter = 20               // work requests
	killSize  = 1 << 20          // bytes a work request
	idle      = verbs.OpLocalInv // stands for no transfer
)

// TestPeerKilled kills a process in the middle of a transfer. The other one sees
// the connection end, and all its own work requests complete.
func TestPeerKilled(t *testing.T) {
	fabric(t)
	// Flushed, unless the kernel was sending just then and met the reset.
	peerKilled(t, dummyIPv4+":0", verbs.StatusWRFlushErr, verbs.StatusLocQPOpErr)
}

// TestRxeCMPeerKilled is the same over RoCE, where the kernel says goodbye for the
// dead process. Before, a request may find its memory gone.
func TestRxeCMPeerKilled(t *testing.T) {
	rxeFabric(t)
	peerKilled(t, rxeIPv4+":0", verbs.StatusWRFlushErr, verbs.StatusRemAccessErr)
}

// peerKilled does so at an address. The worst end of the survivor's work requests
// is one of those.
func peerKilled(t *testing.T, address string, ends ...verbs.Status) {
	for _, test := range []struct {
		name             string
		victim, survivor verbs.Opcode
	}{
		{"it writes", verbs.OpRDMAWrite, idle},
		{"it reads", verbs.OpRDMARead, idle},
		{"we write", idle, verbs.OpRDMAWrite},
		{"we read", idle, verbs.OpRDMARead},
	} {
		t.Run(test.name, func(t *testing.T) {
			noLeak(t)
			ln := must(rdmacm.Listen(address, nil))(t)
			closeLater(t, ln)
			p := start(t, child("victim", ln.Addr().String(), strconv.Itoa(int(test.victim))))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			e := &end{t: t}
			e.Conn = must(must(ln.Next(ctx))(t).Accept(ctx, e.config(setup{size: killSize, recvs: 2})))(t)
			closeLater(t, e)
			p.line(t) // it is under way
			kill := func() { p.Process.Kill() }
			orderly := true
			if test.survivor == idle {
				kill()
			} else {
				status, err := e.stream(ctx, test.survivor, kill)
				if !slices.Contains(ends, status) || err != nil {
					t.Errorf("the stream ended with %v, %v", status, err)
				}
				orderly = false // a failed work request may be the first sign of the end
			}
			err := e.ended()
			failed := slices.ContainsFunc(ends, func(s verbs.Status) bool { return errors.Is(err, s) })
			if !errors.Is(err, rdmacm.ErrDisconnected) && (orderly || !failed) {
				t.Error(err)
			}
			for i := range uint64(2) { // of a failed one rxe does not say that it is a receive
				if wc := e.next(e.RecvCQ()); wc.WRID != 1000+i || wc.Status != verbs.StatusWRFlushErr {
					t.Errorf("receive %d: %+v", i, wc)
				}
			}
		})
	}
}

// victim connects and transfers until it is killed.
func victim(args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	e := new(end)
	conn, err := rdmacm.Dial(ctx, args[0], e.config(setup{size: killSize}))
	if err != nil {
		return err
	}
	underWay := func() { fmt.Println("under way") }
	if op, _ := strconv.Atoi(args[1]); verbs.Opcode(op) != idle {
		_, err = e.stream(ctx, verbs.Opcode(op), underWay)
		return err
	}
	underWay()
	<-conn.Done()
	return conn.Err()
}

// stream keeps the peer's memory busy until a work request fails, and says how,
// when all of them have completed. It prints a line once it is well under way.
func (e *end) stream(ctx context.Context, op verbs.Opcode, underWay func()) (status verbs.Status, err error) {
	wr := e.peer(verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(0, e.mr.Len())}})
	var wcs [8]verbs.WC
	done := 0
	for inFlight := 0; status == verbs.StatusSuccess || inFlight > 0; {
		for ; status == verbs.StatusSuccess && inFlight < len(wcs); inFlight++ {
			if _, err := e.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				return status, err
			}
		}
		n, err := e.SendCQ().Wait(ctx, wcs[:])
		if err != nil {
			return status, err
		}
		for _, wc := range wcs[:n] {
			status = max(status, wc.Status)
		}
		inFlight -= n
		if done += n; done >= killAfter && done-n < killAfter {
			underWay()
		}
	}
	return status, nil
}

// TestWaitsEnd: each wait for a kernel that stays silent ends with its context.
// Others of rdmacm's are in TestCMCancel.
func TestWaitsEnd(t *testing.T) {
	noLeak(t)
	k := newKit(t)
	// The far end receives the packets for this address and drops them.
	sh(t, `ip neigh replace 10.82.0.77 dev gvhere nud permanent lladdr $(ip netns exec gvfar cat /sys/class/net/gvthere/address)`)
	cancelled(t, "CQ", "(*CQ).Wait", func(ctx context.Context) error { _, err := k.cq.Wait(ctx, make([]verbs.WC, 1)); return err })
	cancelled(t, "async event", "(*Device).AsyncEvent", func(ctx context.Context) error { _, err := k.dev.AsyncEvent(ctx); return err })
	dial := func(address string) func(context.Context) error {
		return func(ctx context.Context) error { _, err := rdmacm.Dial(ctx, address, nil); return err }
	}
	cancelled(t, "dial, no answer to TCP", "(*ID).Connect", dial("10.82.0.77:1"))
	cancelled(t, "dial, no answer to ARP", "rdmacm.DialAddrPort", dial("10.82.0.99:1"))
}
