package rdmatest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// A host with two devices of two kinds dials from that of the destination's kind, or from
// the one that it is told.
func TestSources(t *testing.T) {
	v4, v6 := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::7")
	both := rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{
		{Kind: rdmatest.SIW}, {Kind: rdmatest.RXE}, {Kind: rdmatest.RXE, Name: "second", Addrs: []netip.Addr{v4, v6}},
	}}
	f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: []rdmatest.HostOptions{both, {Devices: both.Devices[:2]}, {Devices: []rdmatest.DeviceOptions{{Kind: rdmatest.SIW}}}}})
	for _, c := range []struct {
		to   *rdmatest.Device
		from netip.Addr
		want *rdmatest.Device
	}{
		{f.Host(1).Device(0), netip.Addr{}, f.Host(0).Device(0)},
		{f.Host(1).Device(1), netip.Addr{}, f.Host(0).Device(1)},
		{f.Host(1).Device(1), v4, f.Host(0).Device(2)},
		{f.Host(2).Device(0), f.Host(1).Device(0).Addrs()[0], f.Host(1).Device(0)},
		{f.Host(0).Device(2), v6, f.Host(0).Device(2)},
	} {
		to := c.to.Addrs()[len(c.to.Addrs())-1]
		l := must(rdmacm.Listen(netip.AddrPortFrom(to, 7471).String(), nil))(t)
		accepted := make(chan error, 1)
		go func() {
			s, err := l.Accept(context.Background())
			if err == nil {
				err = s.Close()
			}
			accepted <- err
		}()
		cfg := rdmacm.Config{}
		if c.from.IsValid() {
			cfg.Source = netip.AddrPortFrom(c.from, 0)
		}
		conn := must(rdmacm.Dial(t.Context(), l.Addr().String(), &cfg))(t)
		if got := conn.Device().Info().Name; got != c.want.Name() {
			t.Errorf("to %v from %v: %s, want %s", to, c.from, got, c.want.Name())
		}
		if err := errors.Join(conn.Close(), <-accepted, l.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Fabrics stand beside each other.
func TestParallel(t *testing.T) {
	names := make(map[string]bool)
	for range 3 {
		f := rdmatest.New(t)
		for _, d := range f.Devices() {
			if names[d.Name()] || names[d.Addrs()[0].String()] {
				t.Errorf("%s at %v is there twice", d.Name(), d.Addrs())
			}
			names[d.Name()], names[d.Addrs()[0].String()] = true, true
		}
		meet(t, f, nil)
	}
}

// What is left open is an error of the test, which names it.
func TestLeft(t *testing.T) {
	f := rdmatest.New(t)
	dev := must(uverbs.Open(f.Host(0).Device(0).Name()))(t)
	pd := must(dev.AllocPD())(t)
	if left := f.Left(); len(left) != 3 || left[1] != f.Host(0).Device(0).Name()+": descriptor 1048576" {
		t.Errorf("%q", left)
	}
	if objects := f.Host(0).Device(0).Objects(); len(objects) != 1 || objects[0] != "PD 0" {
		t.Errorf("%q", objects)
	}
	if err := errors.Join(pd.Close(), dev.Close()); err != nil {
		t.Error(err)
	}
	if left := f.Left(); len(left) > 0 {
		t.Errorf("%q", left)
	}
}
