package netlinkrdma_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/verbs"
)

func TestEvents(t *testing.T) {
	k := kernel()
	k.System.Monitor = true
	events, err := (&netlinkrdma.Client{Kernel: k}).Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	sent := []netlinkrdma.Event{
		{Type: netlinkrdma.EventRegister, DeviceName: "siw0"},
		{Type: netlinkrdma.EventNetdevAttach, DeviceIndex: 7, DeviceName: "mlx5_0", Port: 2, NetdevIndex: 4, NetdevName: "eth0"},
		{Type: netlinkrdma.EventNetdevRename, NetdevIndex: 4, NetdevName: "eth1"},
		{Type: 27},
	}
	for _, e := range sent {
		k.Notify(e)
	}
	for _, want := range sent {
		if got, err := events.Next(t.Context()); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := events.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := events.Close(); err != nil {
		t.Error(err)
	}
	if _, err := events.Next(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := events.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error("again:", err)
	}
	if err := (*netlinkrdma.Events)(nil).Close(); !errors.Is(err, os.ErrInvalid) {
		t.Error("nil:", err)
	}
}

func TestEventsLost(t *testing.T) {
	k := kernel()
	k.System.Monitor = true
	events, err := (&netlinkrdma.Client{Kernel: k}).Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(100) {
		k.Notify(netlinkrdma.Event{DeviceIndex: i, DeviceName: "siw0"})
	}
	if _, err := events.Next(t.Context()); !errors.Is(err, netlinkrdma.ErrEventsLost) || !errors.Is(err, syscall.ENOBUFS) {
		t.Error(err)
	}
	if e, err := events.Next(t.Context()); err != nil || e.DeviceIndex != 0 {
		t.Error(e, err)
	}
}

// TestNoEvents subscribes to a kernel without events, and to a Kernel that is no Subscriber.
func TestNoEvents(t *testing.T) {
	deaf := kernel()
	deaf.System.Monitor = true
	for _, k := range []netlinkrdma.Kernel{kernel(), struct{ netlinkrdma.Kernel }{deaf}} {
		_, err := (&netlinkrdma.Client{Kernel: k}).Subscribe()
		if !errors.Is(err, verbs.ErrNotSupported) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "list the devices and ports periodically") {
			t.Error(err)
		}
	}
}

// badNews sends malformed notifications.
type badNews struct{ netlinkrdma.Kernel }

func (b badNews) Subscribe() (netlinkrdma.Subscription, error) { return b, nil }
func (badNews) Receive(context.Context) ([]byte, error)        { return []byte("\x05\x00f\x00"), nil }
func (badNews) Close() error                                   { return nil }

func TestMalformedEvent(t *testing.T) {
	k := kernel()
	k.System.Monitor = true
	events, err := (&netlinkrdma.Client{Kernel: badNews{k}}).Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := events.Next(t.Context()); !errors.Is(err, netlinkrdma.ErrMalformed) {
		t.Error(err)
	}
}
