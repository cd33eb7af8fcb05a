package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// TestWrite has a kernel that answers from lists.
func TestWrite(t *testing.T) {
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{{Index: 3, Name: "rxe0", Ports: 1}, {Index: 4, Name: "siw0", Ports: 1}},
		Ports: []netlinkrdma.Port{
			{DeviceIndex: 3, DeviceName: "rxe0", Index: 1, State: verbs.PortActive, NetdevIndex: 2, NetdevName: "eth0"},
			{DeviceIndex: 4, DeviceName: "siw0", Index: 1, State: verbs.PortDown},
		},
		Resources:  []netlinkrdma.Resource{{Kind: "qp", Count: 5}},
		Statistics: map[nltest.PortID]nltest.Statistics{{Device: 3, Port: 1}: {Counters: []netlinkrdma.Counter{{Name: "sent_pkts", Value: 42}}}},
	}
	var page strings.Builder
	if err := write(&page, &netlinkrdma.Client{Kernel: kernel}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`rdma_port_active{device="rxe0",port="1",netdev="eth0"} 1`,
		`rdma_port_active{device="siw0",port="1",netdev=""} 0`,
		`rdma_port_counter_total{device="rxe0",port="1",counter="sent_pkts"} 42`,
		`rdma_objects{device="siw0",kind="qp"} 5`,
	} {
		if !strings.Contains(page.String(), line+"\n") {
			t.Errorf("no %s in\n%s", line, &page)
		}
	}
	kernel.Fail = map[uint16]error{1: syscall.EPERM} // RDMA_NLDEV_CMD_GET
	if err := write(&page, &netlinkrdma.Client{Kernel: kernel}); err == nil {
		t.Error("no error without devices")
	}
}
