//go:build vm

package test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxePortEvents takes the network device down and up under an open device, and
// gives it another address.
func TestRxePortEvents(t *testing.T) {
	plug(t)
	t.Cleanup(func() { sh(t, "../../bin/rdmalink del gvplugged && ip link del gvplug") })
	noLeak(t)
	d := openRxeLink(t, "gvplugged", "10.86.0.1")
	a, b := d.pair(t, verbs.QPTypeRC, rxeSetup{})
	sh(t, "ip link set gvplug down")
	d.hasEvent(uverbs.EventPortErr)
	if p := must(d.QueryPort(1))(t); p.State != verbs.PortDown {
		t.Errorf("%v when it is down", p.State)
	}
	if _, err := d.ChooseGID(1, nil); !errors.Is(err, verbs.ErrNoGID) {
		t.Error(err)
	}
	sh(t, "ip link set gvplug up")
	d.hasEvent(uverbs.EventPortActive)
	if p := must(d.QueryPort(1))(t); p.State != verbs.PortActive {
		t.Errorf("%v when it is up", p.State)
	}
	sh(t, "ip addr add 10.86.0.2/24 dev gvplug")
	d.hasEvent(uverbs.EventGIDChange)
	b.postRecv(1, 0, 10)
	a.post(a.send(1, sendFrom, 10))
	a.sent("1 SEND success")
	b.got("1 RECV success 10")
}

// TestRxeLinkDeleted deletes the link of an open device. The kernel waits until
// everybody has closed it, without notice. Until then it can't be found any more,
// but programs that have it open can use it.
func TestRxeLinkDeleted(t *testing.T) {
	plug(t)
	noLeak(t)
	removal := whileOpen(t, exec.Command(rdmalinkBin, "del", "gvplugged"), func(d *rxeDevice, a, b *rxeEnd) {
		b.postRecv(1, 0, 10)
		a.post(a.send(1, sendFrom, 10))
		a.sent("1 SEND success")
		b.got("1 RECV success 10")
		if p, err := d.QueryPort(1); err != nil || p.State != verbs.PortActive {
			t.Error(p, err)
		}
	})
	if out := removal.end(); out != (output{}) {
		t.Errorf("%+v", out)
	}
	sh(t, "ip link del gvplug")
}

// TestRxeNetdevDeleted deletes the network device under an open one. There is an
// event, sends fail, and the kernel waits as above.
func TestRxeNetdevDeleted(t *testing.T) {
	plug(t)
	noLeak(t)
	removal := whileOpen(t, exec.Command("ip", "link", "del", "gvplug"), func(d *rxeDevice, a, _ *rxeEnd) {
		d.hasEvent(uverbs.EventGIDChange)
		until(t, "without GIDs", func() bool { return len(must(d.GIDTable())(t)) == 0 })
		a.post(a.send(1, sendFrom, 10))
		if wc := a.next(a.sendCQ); wc.Status != verbs.StatusWRFlushErr && wc.Status != verbs.StatusLocQPOpErr {
			t.Errorf("%+v", wc)
		}
		if p, err := d.QueryPort(1); err == nil {
			t.Logf("%+v", p)
		} else if !errors.Is(err, syscall.ENODEV) {
			t.Error(err)
		}
	})
	if out := removal.end(); out != (output{}) {
		t.Errorf("%+v", out)
	}
}

// whileOpen begins to remove the link of a device that is open, looks at what is
// left of it, and closes it.
func whileOpen(t *testing.T, remove *exec.Cmd, look func(d *rxeDevice, a, b *rxeEnd)) (removal *running) {
	t.Helper()
	t.Run("while open", func(open *testing.T) {
		d := openRxeLink(open, "gvplugged", "10.86.0.1")
		a, b := d.pair(open, verbs.QPTypeRC, rxeSetup{})
		removal = launch(t, remove) // which outlives the device
		until(open, "off the list", func() bool { return !isListed(open, "gvplugged") })
		if d, err := uverbs.Open("gvplugged"); !errors.Is(err, verbs.ErrNoDevice) {
			t.Error(d, err)
		}
		look(d, a, b)
	})
	return removal
}

func isListed(t *testing.T, name string) bool {
	t.Helper()
	var nl netlinkrdma.Client
	return slices.ContainsFunc(must(nl.Devices())(t), func(d netlinkrdma.Device) bool { return d.Name == name })
}

// plug makes a link that no other test needs.
func plug(t *testing.T) {
	t.Helper()
	sh(t, `set -e
		ip link add gvplug type dummy
		ip addr add 10.86.0.1/24 dev gvplug
		ip link set gvplug up
		../../bin/rdmalink add gvplugged type rxe netdev gvplug`)
}

// hasEvent waits for an event of port 1; others may come before it.
func (d *rxeDevice) hasEvent(want uverbs.EventType) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	for {
		e, err := d.AsyncEvent(ctx)
		if err != nil {
			d.t.Fatalf("no event %v: %v", want, err)
		}
		if e.Type == want && e.Port == 1 {
			return
		}
	}
}
