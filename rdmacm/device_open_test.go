package rdmacm_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestOpenDevice finds the device of each address of a host, of every kind.
func TestOpenDevice(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			fabric := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
			for _, d := range fabric.Host(1).Devices() {
				for _, a := range d.Addrs() {
					dev, port, err := rdmacm.OpenDevice(a)
					if err != nil || port != 1 || dev.Info().Name != d.Name() {
						t.Fatalf("%v: %+v, port %d, %v", a, dev, port, err)
					}
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for _, a := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Loopback()} {
		if _, _, err := rdmacm.OpenDevice(a); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v: %v", a, err)
		}
	}
}
