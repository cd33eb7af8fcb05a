//go:build vm

package netlink

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
)

// TestNldevEventsLost checks that the next event is seen after events were lost, because nobody read
// while a device came and went.
func TestNldevEventsLost(t *testing.T) {
	if kit.OnKernel("6.1") {
		return // it sends none, see TestNldevEvents
	}
	events := subscribeWithRoom(t, "4096")
	var c netlinkrdma.Client
	kit.Dummy(t, "gvflood")
	for range 8 {
		change(t, c.AddLink("gvflood", "rxe", "gvflood"))
		change(t, c.DeleteLink(kit.Must(c.DeviceByName("gvflood"))(t).Index))
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	if e, err := events.Next(ctx); !errors.Is(err, netlinkrdma.ErrEventsLost) {
		t.Fatalf("%+v, %v", e, err)
	}
	fitted := 0
	for ; unread(t, "/proc/net/netlink"); fitted++ {
		if e := kit.Must(events.Next(ctx))(t); e.DeviceName != "gvflood" {
			t.Fatalf("%+v", e)
		}
	}
	if fitted == 0 || fitted >= 3*8 {
		t.Errorf("%d events came before the loss", fitted)
	}
	index := kit.Link(t, "gvafter", "rxe", "gvflood").Index
	if e := kit.Must(events.Next(ctx))(t); e.Type != netlinkrdma.EventRegister || e.DeviceIndex != index {
		t.Errorf("%+v, want device %d", e, index)
	}
}

// unread reports whether events wait in a socket of a network namespace, whose table of
// netlink sockets is this file. Each line has the protocol, the groups and the memory
// of unread events.
func unread(t *testing.T, table string) bool {
	t.Helper()
	for line := range strings.Lines(string(kit.Must(os.ReadFile(table))(t))) {
		if f := strings.Fields(line); len(f) > 4 && f[1] == "20" && f[3] != "00000000" && f[4] != "0" {
			return true
		}
	}
	return false
}

// subscribeWithRoom gives the socket of a subscription a receive buffer of so
// many bytes.
func subscribeWithRoom(t *testing.T, bytes string) *netlinkrdma.Events {
	t.Helper()
	const room = "/proc/sys/net/core/rmem_default"
	usual := kit.Must(os.ReadFile(room))(t)
	change(t, os.WriteFile(room, []byte(bytes), 0))
	events, err := new(netlinkrdma.Client).Subscribe()
	change(t, os.WriteFile(room, usual, 0))
	change(t, err)
	kit.CloseLater(t, events)
	return events
}
