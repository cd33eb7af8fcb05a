package rdmatest_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// gidTable returns the GIDs of a device by their index.
func gidTable(t *testing.T, d *uverbs.Device) map[uint32]netip.Addr {
	t.Helper()
	gids := make(map[uint32]netip.Addr)
	for _, e := range must(d.GIDTable())(t) {
		gids[e.Index] = e.GID.Addr()
	}
	return gids
}

// Addresses come and go: the GID table follows, with an event, and so does the data.
func TestAddr(t *testing.T) {
	bubble(t, func(t *testing.T, f *rdmatest.Fabric) {
		here, there := f.Host(0).Device(0), f.Host(1).Device(0)
		a, b := newNode(t, here, verbs.QPTypeRC, all), newNode(t, there, verbs.QPTypeRC, all)
		a.connect(b, func(a *verbs.QPAttr) { a.RetryCnt = 6 })
		b.connect(a, func(a *verbs.QPAttr) { a.RetryCnt = 6 })
		c, d := newNode(t, there, verbs.QPTypeRC, all), newNode(t, here, verbs.QPTypeRC, all)
		c.connect(d, func(a *verbs.QPAttr) { a.RetryCnt = 6 })
		d.connect(c, nil)
		first, second, third := there.Addrs()[0], netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8::7")
		changed := func(d *uverbs.Device) {
			t.Helper()
			if ev, err := d.AsyncEvent(context.Background()); err != nil || ev.Type != verbs.EventGIDChange {
				t.Errorf("%+v, %v", ev, err)
			}
		}
		there.AddAddr(second)
		there.AddAddr(second) // which changes nothing
		changed(b.dev)
		there.RemoveAddr(second)
		changed(b.dev)
		there.AddAddr(third)
		changed(b.dev)
		if got := gidTable(t, b.dev); len(got) != 3 || got[1] != first || got[2] != third {
			t.Error("nobody used the index:", got)
		}
		a.post(a.to(b, verbs.OpRDMAWrite, 8))
		if got := outcome(a.next()); got != "1 RDMA_WRITE success" {
			t.Error(got)
		}
		there.RemoveAddr(first)
		changed(b.dev)
		there.AddAddr(second)
		changed(b.dev)
		if got := gidTable(t, b.dev); len(got) != 3 || got[1].IsValid() || got[3] != second {
			t.Error("a queue pair uses the index:", got)
		}
		a.post(a.to(b, verbs.OpRDMAWrite, 8))
		if got := outcome(a.next()); got != "1 transport retries exceeded" {
			t.Error("to an address that is gone:", got)
		}
		c.post(c.to(d, verbs.OpRDMAWrite, 8))
		if got := outcome(c.next()); got != "1 transport retries exceeded" {
			t.Error("from an address that is gone:", got)
		}
		here.AddAddr(third) // it moves
		changed(a.dev)
		changed(b.dev)
		if !slices.Equal(there.Addrs(), []netip.Addr{second}) || !slices.Contains(here.Addrs(), third) {
			t.Error(here.Addrs(), there.Addrs())
		}
	})
}

// A service is dialled at an address that its host loses, and at one that it gets.
func TestAddrDial(t *testing.T) {
	f := rdmatest.New(t)
	device := f.Host(1).Device(0)
	second := netip.MustParseAddr("198.51.100.8")
	device.AddAddr(second)
	device.RemoveAddr(device.Addrs()[0])
	if f.Host(1).Addr() != second.String() {
		t.Error(f.Host(1).Addr())
	}
	dialled, _ := meet(t, f, nil)
	if got := dialled.RemoteAddr().String(); netip.MustParseAddrPort(got).Addr() != second {
		t.Error(got)
	}
}

// The GIDs of other devices don't depend on addresses.
func TestAddrOthers(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.SIW})
	d := f.Host(0).Device(0)
	before := d.Addrs()
	d.AddAddr(netip.MustParseAddr("198.51.100.9"))
	d.RemoveAddr(before[0])
	if !slices.Equal(d.Addrs(), before) {
		t.Error(d.Addrs())
	}
}
