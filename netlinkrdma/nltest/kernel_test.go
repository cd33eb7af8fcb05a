package nltest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// A watcher receives what Linux sends for a link that is added, renamed and deleted
// (TestNldevEvents has the kernel's own).
func TestEvents(t *testing.T) {
	c := netlinkrdma.Client{Kernel: &nltest.Kernel{Netdevs: []string{"eth0", "eth1"}, Types: []string{"rxe"}, System: netlinkrdma.System{Monitor: true}}}
	events, err := c.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddLink("born", "rxe", "eth1"); err != nil {
		t.Fatal(err)
	}
	d, err := c.DeviceByName("born")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RenameDevice(d.Index, "grown"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteLink(d.Index); err != nil {
		t.Error(err)
	}
	want := []netlinkrdma.Event{
		{Type: netlinkrdma.EventRegister, DeviceIndex: d.Index, DeviceName: "born"},
		{Type: netlinkrdma.EventNetdevAttach, DeviceIndex: d.Index, DeviceName: "born", Port: 1, NetdevIndex: 1, NetdevName: "eth1"},
		{Type: netlinkrdma.EventRename, DeviceIndex: d.Index, DeviceName: "grown"},
		{Type: netlinkrdma.EventUnregister, DeviceIndex: d.Index, DeviceName: "grown"},
	}
	var got []netlinkrdma.Event
	for range want {
		e, err := events.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Goroutines may subscribe, notify and change links at a time: see make race.
func TestConcurrentUse(t *testing.T) {
	k := &nltest.Kernel{Types: []string{"rxe"}, System: netlinkrdma.System{Monitor: true}}
	for i := range 8 {
		k.Netdevs = append(k.Netdevs, fmt.Sprint("eth", i))
	}
	c := netlinkrdma.Client{Kernel: k}
	var all sync.WaitGroup
	for i, netdev := range k.Netdevs {
		all.Go(func() {
			events, err := c.Subscribe()
			if err != nil {
				t.Error(err)
				return
			}
			defer events.Close()
			if err := c.AddLink(fmt.Sprint("rxe", i), "rxe", netdev); err != nil {
				t.Error(err)
			}
			k.Notify(netlinkrdma.Event{Type: netlinkrdma.EventRename, DeviceIndex: 1, DeviceName: "x"})
			if _, err := events.Next(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if devices, err := c.Devices(); err != nil || len(devices) != len(k.Netdevs) {
		t.Error(devices, err)
	}
}

// A port keeps the name of a network device whose index is not given, and has the name of its device.
func TestPortKeepsName(t *testing.T) {
	c := netlinkrdma.Client{Kernel: &nltest.Kernel{Devices: []netlinkrdma.Device{{Index: 1, Name: "mlx5_0"}},
		Ports: []netlinkrdma.Port{{DeviceIndex: 1, Index: 1, NetdevName: "eth0"}}}}
	if ports, err := c.Ports(1); err != nil || len(ports) != 1 || ports[0].NetdevName != "eth0" || ports[0].DeviceName != "mlx5_0" {
		t.Error(ports, err)
	}
}
