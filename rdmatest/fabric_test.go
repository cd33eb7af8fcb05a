package rdmatest_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
)

// onKinds runs a test with two hosts of each kind.
func onKinds(t *testing.T, test func(t *testing.T, f *rdmatest.Fabric)) {
	for _, k := range rdmatest.Kinds {
		t.Run(k.String(), func(t *testing.T) { test(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: k})) })
	}
}

// meet connects host 0 with host 1. cfg may be nil.
func meet(t testing.TB, f *rdmatest.Fabric, cfg *rdmacm.Config) (dialled, accepted *rdmacm.Conn) {
	t.Helper()
	var d rdmacm.Dialer
	if cfg != nil {
		d.Config = *cfg
	}
	return meetBy(t, f, &d)
}

// meetBy is meet for a dialer. Its Config is for both ends.
func meetBy(t testing.TB, f *rdmatest.Fabric, d *rdmacm.Dialer) (dialled, accepted *rdmacm.Conn) {
	t.Helper()
	there := d.Config
	there.TransportOptions = rdmacm.TransportOptions{}
	l, err := (&rdmacm.ListenConfig{Config: there}).Listen(t.Context(), f.Host(1).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		accepted, err = l.Accept(context.Background())
		done <- err
	}()
	dialled, err = d.Dial(context.Background(), l.Addr().String())
	if err := errors.Join(err, <-done, l.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []*rdmacm.Conn{dialled, accepted} {
			if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // the test may have closed it
				t.Error(err)
			}
		}
	})
	return dialled, accepted
}

func TestDevicesAreFound(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		for _, d := range f.Devices() {
			dev, err := uverbs.Open(d.Name())
			if err != nil {
				t.Fatal(err)
			}
			port, err := dev.QueryPort(1)
			if err != nil || port.State.String() != "ACTIVE" {
				t.Error(port, err)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestConnected(t *testing.T) {
	onKinds(t, func(t *testing.T, f *rdmatest.Fabric) {
		a, b := meet(t, f, nil)
		if a.Device().Info().Name != f.Host(0).Device(0).Name() || b.Device().Info().Name != f.Host(1).Device(0).Name() {
			t.Errorf("%s dialled %s", a.Device().Info().Name, b.Device().Info().Name)
		}
	})
}
