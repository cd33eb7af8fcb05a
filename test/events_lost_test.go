//go:build vm

package test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// TestNldevEventsLost: nobody reads while a device comes and goes, and there is
// no room for so much; the next event is seen after that.
func TestNldevEventsLost(t *testing.T) {
	if onKernel("6.1") {
		return // it sends none, see TestNldevEvents
	}
	events := subscribeWithRoom(t, "4096")
	var c netlinkrdma.Client
	dummy(t, "gvflood")
	for range 8 {
		change(t, c.AddLink("gvflood", "rxe", "gvflood"))
		change(t, c.DeleteLink(must(c.DeviceByName("gvflood"))(t).Index))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if e, err := events.Next(ctx); !errors.Is(err, netlinkrdma.ErrEventsLost) {
		t.Fatalf("%+v, %v", e, err)
	}
	fitted := 0
	for ; ; fitted++ {
		e, err := nextSoon(events)
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil || e.DeviceName != "gvflood" {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	if fitted == 0 || fitted >= 3*8 {
		t.Errorf("%d events came before the loss", fitted)
	}
	index := link(t, "gvafter", "rxe", "gvflood").Index
	if e := must(events.Next(ctx))(t); e.Type != netlinkrdma.EventRegister || e.DeviceIndex != index {
		t.Errorf("%+v, want device %d", e, index)
	}
}

// nextSoon is for what is there already.
func nextSoon(events *netlinkrdma.Events) (netlinkrdma.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return events.Next(ctx)
}

// subscribeWithRoom gives the socket of a subscription a receive buffer of so
// many bytes.
func subscribeWithRoom(t *testing.T, bytes string) *netlinkrdma.Events {
	t.Helper()
	const room = "/proc/sys/net/core/rmem_default"
	usual := must(os.ReadFile(room))(t)
	change(t, os.WriteFile(room, []byte(bytes), 0))
	events, err := new(netlinkrdma.Client).Subscribe()
	change(t, os.WriteFile(room, usual, 0))
	change(t, err)
	closeLater(t, events)
	return events
}
