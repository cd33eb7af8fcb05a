//go:build vm

package netlink

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// change fails the test if a change failed.
func change(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNldevSetDevice(t *testing.T) {
	for _, typ := range kit.LinkTypes() {
		netdev := "gvset" + typ
		kit.Dummy(t, netdev, "10.87.0.1/24")
		index := kit.Link(t, "gvold"+typ, typ, netdev).Index
		var c netlinkrdma.Client
		for _, d := range kit.Must(c.Devices())(t) {
			if diff := cmp.Diff(d, kit.Must(c.Device(d.Index))(t)); diff != "" {
				t.Errorf("(-listed +asked for):\n%s", diff)
			}
		}
		if diff := cmp.Diff(kit.Must(c.Ports(index))(t)[0], kit.Must(c.Port(index, 1))(t)); diff != "" {
			t.Errorf("(-listed +asked for):\n%s", diff)
		}
		change(t, c.RenameDevice(index, "gvnew"+typ))
		kit.Same(t, "/sys/class/infiniband/gvnew"+typ+"/node_guid", kit.Must(c.DeviceByName("gvnew"+typ))(t).NodeGUID.String())
		for _, on := range []bool{true, false} {
			change(t, c.SetAdaptiveModeration(index, on))
			if d := kit.Must(c.Device(index))(t); d.AdaptiveModeration != (netlinkrdma.Opt[bool]{Value: on, Known: true}) {
				t.Errorf("%s moderation %+v, want %t", d.Name, d.AdaptiveModeration, on)
			}
		}
		if err := c.RenameDevice(4711, "gvnone"); !errors.Is(err, netlinkrdma.ErrNotFound) {
			t.Error(err)
		}
		if err := c.AddSubDevice(index, "gvsub", netlinkrdma.DeviceSMI); kit.OnKernel("6.1") && !errors.Is(err, syscall.EINVAL) || !kit.OnKernel("6.1") && !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Error(err)
		}
		if err := c.DeleteSubDevice(index); kit.OnKernel("6.1") && !errors.Is(err, syscall.EINVAL) || !kit.OnKernel("6.1") && !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Error(err)
		}
	}
}

func TestNldevRenameToAnother(t *testing.T) {
	kit.Dummy(t, "gvtwo1")
	kit.Dummy(t, "gvtwo2")
	kit.Link(t, "gvtwinA", "rxe", "gvtwo1")
	d := kit.Link(t, "gvtwinB", "rxe", "gvtwo2")
	if err := new(netlinkrdma.Client).RenameDevice(d.Index, "gvtwinA"); !errors.Is(err, syscall.EEXIST) {
		t.Error(err)
	}
}

func TestNldevPrivilegedQKey(t *testing.T) {
	var c netlinkrdma.Client
	for _, on := range []bool{true, false} {
		change(t, c.SetPrivilegedQKey(on))
		if s := kit.Must(c.System())(t); s.PrivilegedQKey != (netlinkrdma.Opt[bool]{Value: on, Known: true}) || !s.CopyOnFork || s.Monitor == kit.OnKernel("6.1") {
			t.Errorf("%+v, want %t", s, on)
		}
	}
	if err := c.SetNetnsMode(2); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestNldevEvents follows a device through its life.
func TestNldevEvents(t *testing.T) {
	var c netlinkrdma.Client
	events, err := c.Subscribe()
	if kit.OnKernel("6.1") {
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "list the devices and ports") {
			t.Error(err)
		}
		return
	}
	change(t, err)
	kit.CloseLater(t, events)
	kit.Dummy(t, "gvevents")
	change(t, c.AddLink("gvborn", "rxe", "gvevents"))
	d := kit.Must(c.DeviceByName("gvborn"))(t)
	netdev := kit.Must(c.Port(d.Index, 1))(t).NetdevIndex
	change(t, c.RenameDevice(d.Index, "gvgrown"))
	change(t, c.DeleteLink(d.Index))

	want := []netlinkrdma.Event{
		{Type: netlinkrdma.EventRegister, DeviceIndex: d.Index, DeviceName: "gvborn"},
		{Type: netlinkrdma.EventNetdevAttach, DeviceIndex: d.Index, DeviceName: "gvborn", Port: 1, NetdevIndex: netdev, NetdevName: "gvevents"},
	}
	if !kit.OnKernel("6.12") {
		want = append(want, netlinkrdma.Event{Type: netlinkrdma.EventRename, DeviceIndex: d.Index, DeviceName: "gvgrown"})
	}
	want = append(want, netlinkrdma.Event{Type: netlinkrdma.EventUnregister, DeviceIndex: d.Index, DeviceName: "gvgrown"})
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	after := kit.Link(t, "gvafter", "rxe", "gvevents").Index // whose first event comes behind all of those
	var got []netlinkrdma.Event
	for e := kit.Must(events.Next(ctx))(t); e.DeviceIndex != after; e = kit.Must(events.Next(ctx))(t) {
		if e.DeviceIndex == d.Index {
			got = append(got, e)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
