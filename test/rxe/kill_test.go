//go:build vm

package rxe

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxePeerKilled kills a process in the middle of a transfer between QPs that
// were connected by hand. The other one gets no notice and finds out by sending;
// then all its work requests complete, and nothing of the dead process is left.
func TestRxePeerKilled(t *testing.T) {
	for _, who := range []string{"it", "we", "both"} {
		t.Run(who+" write", func(t *testing.T) {
			kit.RxeFabric(t)
			kit.NoLeak(t)
			d := kit.OpenRxe(t)
			q := kit.Must(kit.NewRCQP(d.Device))(t)
			kit.CloseLater(t, q)
			p := kit.Start(t, kit.Child("rxe victim", who, q.String()))
			if err := q.Connect(p.Line(t)); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(2) {
				if _, err := q.QP.PostRecv([]verbs.RecvWR{{WRID: i}}); err != nil {
					t.Fatal(err)
				}
			}
			p.Line(t) // it is under way
			kill := func() { p.Process.Kill() }
			if who == "it" {
				kill()
				p.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
			defer cancel()
			status, err := writeUntilFailure(q, ctx, kill)
			if err != nil || len(status) != cap(q.Wcs) || status[0] != verbs.StatusRetryExcErr {
				t.Errorf("the writes ended with %v, %v", status, err)
			}
			for _, s := range status[1:] {
				if s != verbs.StatusWRFlushErr {
					t.Errorf("the writes ended with %v", status)
				}
			}
			for i := range uint64(2) {
				n, err := q.RecvCQ.Wait(ctx, q.Wcs[:1])
				if wc := q.Wcs[0]; n != 1 || err != nil || wc.WRID != i || wc.Status != verbs.StatusWRFlushErr {
					t.Errorf("receive %d: %+v, %v", i, wc, err)
				}
			}
		})
	}
}

// rxeVictim is connected to by hand, and writes, or not, until it is killed.
func rxeVictim(args []string) error {
	d, err := uverbs.Open(kit.RxeLink)
	if err != nil {
		return err
	}
	q, err := kit.NewRCQP(d)
	if err != nil {
		return err
	}
	fmt.Println(q)
	if err := q.Connect(args[1]); err != nil {
		return err
	}
	underWay := func() { fmt.Println("under way") }
	if args[0] != "we" {
		status, err := writeUntilFailure(q, context.Background(), underWay)
		return fmt.Errorf("outlived its peer: %v, %w", status, err)
	}
	underWay()
	time.Sleep(2 * kit.Patience)
	return errors.New("was not killed")
}

// write writes to the peer's memory until a write fails, and prints the status of
// each failed write when all have completed. It prints a line once it is well under way.
func writeUntilFailure(q *kit.RCQP, ctx context.Context, underWay func()) (failed []verbs.Status, err error) {
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: q.Addr, RKey: q.Rkey,
		SGL: []verbs.SGE{q.MR.SGE(0, q.MR.Len())}}
	done := 0
	for inFlight := 0; len(failed) == 0 || inFlight > 0; {
		for ; len(failed) == 0 && inFlight < len(q.Wcs); inFlight++ {
			if _, err := q.QP.PostSend([]verbs.SendWR{wr}); err != nil {
				return failed, err
			}
		}
		n, err := q.SendCQ.Wait(ctx, q.Wcs)
		if err != nil {
			return failed, err
		}
		for _, wc := range q.Wcs[:n] {
			if wc.Status != verbs.StatusSuccess {
				failed = append(failed, wc.Status)
			}
		}
		inFlight -= n
		if done += n; done >= kit.KillAfter && done-n < kit.KillAfter {
			underWay()
		}
	}
	return failed, nil
}

// TestRxePortEvents takes the network device down and up under an open device, and
// gives it another address.
func TestRxePortEvents(t *testing.T) {
	plug(t)
	t.Cleanup(func() { kit.Sh(t, "../../bin/rdmalink del gvplugged && ip link del gvplug") })
	kit.NoLeak(t)
	d := kit.OpenRxeLink(t, "gvplugged", "10.86.0.1")
	a, b := d.Pair(t, verbs.QPTypeRC, kit.RxeSetup{})
	kit.Sh(t, "ip link set gvplug down")
	hasEvent(d, verbs.EventPortErr)
	if p := kit.Must(d.QueryPort(1))(t); p.State != verbs.PortDown {
		t.Errorf("%v when it is down", p.State)
	}
	if _, err := d.ChooseGID(1, nil); !errors.Is(err, verbs.ErrNoGID) {
		t.Error(err)
	}
	kit.Sh(t, "ip link set gvplug up")
	hasEvent(d, verbs.EventPortActive)
	if p := kit.Must(d.QueryPort(1))(t); p.State != verbs.PortActive {
		t.Errorf("%v when it is up", p.State)
	}
	kit.Sh(t, "ip addr add 10.86.0.2/24 dev gvplug")
	hasEvent(d, verbs.EventGIDChange)
	b.PostRecv(1, 0, 10)
	a.Post(a.Send(1, kit.SendFrom, 10))
	a.Sent("1 SEND success")
	b.Got("1 RECV success 10")
}

// TestRxeLinkDeleted deletes the link of an open device. The kernel waits until
// everybody has closed it, without notice. Until then it can't be found any more,
// but programs that have it open can use it.
func TestRxeLinkDeleted(t *testing.T) {
	plug(t)
	kit.NoLeak(t)
	removal := whileOpen(t, exec.Command(kit.RdmalinkBin, "del", "gvplugged"), func(d *kit.RxeDevice, a, b *kit.RxeEnd) {
		b.PostRecv(1, 0, 10)
		a.Post(a.Send(1, kit.SendFrom, 10))
		a.Sent("1 SEND success")
		b.Got("1 RECV success 10")
		if p, err := d.QueryPort(1); err != nil || p.State != verbs.PortActive {
			t.Error(p, err)
		}
	})
	if out := removal.End(); out != (kit.Output{}) {
		t.Errorf("%+v", out)
	}
	kit.Sh(t, "ip link del gvplug")
}

// TestRxeNetdevDeleted deletes the network device under an open one. There is an
// event, sends fail, and the kernel waits as above.
func TestRxeNetdevDeleted(t *testing.T) {
	plug(t)
	kit.NoLeak(t)
	removal := whileOpen(t, exec.Command("ip", "link", "del", "gvplug"), func(d *kit.RxeDevice, a, _ *kit.RxeEnd) {
		hasEvent(d, verbs.EventGIDChange)
		kit.Until(t, "without GIDs", func() bool { return len(kit.Must(d.GIDTable())(t)) == 0 })
		a.Post(a.Send(1, kit.SendFrom, 10))
		if wc := a.Next(a.SendCQ); wc.Status != verbs.StatusWRFlushErr && wc.Status != verbs.StatusLocQPOpErr {
			t.Errorf("%+v", wc)
		}
		if p, err := d.QueryPort(1); err == nil {
			t.Logf("%+v", p)
		} else if !errors.Is(err, syscall.ENODEV) {
			t.Error(err)
		}
	})
	if out := removal.End(); out != (kit.Output{}) {
		t.Errorf("%+v", out)
	}
}

// whileOpen begins to remove the link of a device that is open, looks at the
// remaining device unless the kernel revokes it, and closes it.
func whileOpen(t *testing.T, remove *exec.Cmd, look func(d *kit.RxeDevice, a, b *kit.RxeEnd)) (removal *kit.Running) {
	t.Helper()
	t.Run("while open", func(open *testing.T) {
		d := kit.OpenRxeLink(open, "gvplugged", "10.86.0.1")
		a, b := d.Pair(open, verbs.QPTypeRC, kit.RxeSetup{})
		removal = kit.Launch(t, remove) // which outlives the device
		kit.Until(open, "off the list", func() bool { return !isListed(open, "gvplugged") })
		if d, err := uverbs.Open("gvplugged"); !errors.Is(err, verbs.ErrNoDevice) {
			t.Error(d, err)
		}
		if kit.SinceLinux7() { // the kernel revokes the context, see TestRevoked
			kit.Until(open, "revoked", func() bool { _, err := d.QueryPort(1); return errors.Is(err, syscall.EIO) })
			return
		}
		look(d, a, b)
	})
	return removal
}

func isListed(t *testing.T, name string) bool {
	t.Helper()
	var nl netlinkrdma.Client
	return slices.ContainsFunc(kit.Must(nl.Devices())(t), func(d netlinkrdma.Device) bool { return d.Name == name })
}

// plug makes a link that no other test needs.
func plug(t *testing.T) {
	t.Helper()
	kit.Sh(t, `set -e
		ip link add gvplug type dummy
		ip addr add 10.86.0.1/24 dev gvplug
		ip link set gvplug up
		../../bin/rdmalink add gvplugged type rxe netdev gvplug`)
}

// hasEvent waits for an event of port 1; others may come before it.
func hasEvent(d *kit.RxeDevice, want verbs.EventType) {
	d.T.Helper()
	ctx, cancel := context.WithTimeout(d.T.Context(), kit.Patience)
	defer cancel()
	for {
		e, err := d.AsyncEvent(ctx)
		if err != nil {
			d.T.Fatalf("no event %v: %v", want, err)
		}
		if e.Type == want && e.Port == 1 {
			return
		}
	}
}
