package rdmatest_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/uverbs"
)

// A host with two devices of two kinds dials from that of the destination's kind, or from
// the one that it is given.
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
		l := must(rdmacm.Listen(t.Context(), netip.AddrPortFrom(to, 7471).String()))(t)
		accepted := make(chan error, 1)
		go func() {
			s, err := l.Accept(context.Background())
			if err == nil {
				err = s.Close()
			}
			accepted <- err
		}()
		var d rdmacm.Dialer
		if c.from.IsValid() {
			d.LocalAddr = netip.AddrPortFrom(c.from, 0)
		}
		conn := must(d.Dial(t.Context(), l.Addr().String()))(t)
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

// An object that is left open is an error of the test, which names it.
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

// TestKill checks that a process that is killed takes nothing with it: its peer hears of it, its host
// refuses, and another one takes its place.
func TestKill(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := meet(t, f, nil)
		l := must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":7471"))(t)
		mr := must(b.PD().AllocMR(4096, 0, nil))(t)
		f.Host(1).SetMemlock(4096)
		ended := make(chan error, 1)
		go func() { _, err := l.Accept(context.Background()); ended <- err }()
		f.Host(1).Kill()
		<-a.Done()
		<-b.Done()
		if err := <-ended; err == nil {
			t.Error("the listener did not end")
		}
		if _, err := b.QP().Query(); !errors.Is(err, syscall.EIO) {
			t.Error("a call of the dead program:", err)
		}
		if n := len(f.Host(1).Device(0).Objects()); n > 0 {
			t.Errorf("%q are left", f.Host(1).Device(0).Objects())
		}
		if _, err := rdmacm.Dial(t.Context(), f.Host(1).Addr()+":7471"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error("nobody listens:", err)
		}
		dev := must(uverbs.Open(f.Host(1).Device(0).Name()))(t)
		pd := must(dev.AllocPD())(t)
		next := must(pd.AllocMR(4096, 0, nil))(t) // the dead program's pinned memory is free
		if err := errors.Join(next.Close(), pd.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
		l = must(rdmacm.Listen(t.Context(), f.Host(1).Addr()+":7471"))(t)
		if err := errors.Join(l.Close(), mr.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestKillUnreachable checks that over RoCE nobody hears of a process that dies behind a cut.
func TestKillUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.New(t)
		a, _ := meet(t, f, nil)
		heal := f.Partition(f.Host(0), f.Host(1))
		f.Host(1).Kill()
		heal()
		time.Sleep(time.Hour)
		select {
		case <-a.Done():
			t.Error("it heard:", a.Err())
		default:
		}
	})
}

// TestContext checks that a connection that is dialed with the context of a host leaves from there,
// unless its options say otherwise.
func TestContext(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		l := must(rdmacm.Listen(t.Context(), f.Host(0).Addr()+":0"))(t)
		defer l.Close()
		dial := func(host int, d *rdmacm.Dialer) string {
			go func() {
				if c, err := l.Accept(context.Background()); err == nil {
					defer c.Close()
					<-c.Done()
				}
			}()
			c := must(d.Dial(f.Host(host).Context(t.Context()), l.Addr().String()))(t)
			defer c.Close()
			return c.Device().Info().Name
		}
		for i := range 2 {
			if got, want := dial(i, &rdmacm.Dialer{}), f.Host(i).Device(0).Name(); got != want {
				t.Errorf("%s dialled, want %s", got, want)
			}
		}
		d := &rdmacm.Dialer{LocalAddr: netip.AddrPortFrom(f.Host(1).Device(0).Addrs()[0], 0)}
		if got, want := dial(0, d), f.Host(1).Device(0).Name(); got != want {
			t.Errorf("%s dialled, want %s", got, want)
		}
	})
}

// TestContextAbove checks that streams and messages leave from the host of the context too.
func TestContextAbove(t *testing.T) {
	f := rdmatest.New(t)
	ctx := f.Host(1).Context(t.Context())
	l := must(rsocket.Listen(t.Context(), f.Host(0).Addr()+":0"))(t)
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		served <- err
	}()
	c := must(rsocket.Dial(ctx, l.Addr().String()))(t)
	if got := c.LocalAddr().String(); !strings.HasPrefix(got, f.Host(1).Addr()+":") {
		t.Errorf("the stream leaves from %s", got)
	}
	if err := errors.Join(c.Close(), <-served, l.Close()); err != nil {
		t.Error(err)
	}
	m := must(msg.Listen(t.Context(), f.Host(0).Addr()+":0"))(t)
	go func() {
		c, err := m.Accept(context.Background())
		if err == nil {
			err = c.Close()
		}
		served <- err
	}()
	d := must(msg.Dial(ctx, m.Addr().String()))(t)
	if got := d.LocalAddr().Addr().String(); got != f.Host(1).Addr() {
		t.Errorf("messages leave from %s", got)
	}
	if err := errors.Join(d.Close(), <-served, m.Close()); err != nil {
		t.Error(err)
	}
}
