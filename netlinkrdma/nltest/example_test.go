package nltest_test

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// A program that is given its Client can be tested without a device, and with each
// errno. Operations have the numbers of <rdma/rdma_netlink.h>.
func ExampleKernel() {
	const cmdNewLink = 3 // RDMA_NLDEV_CMD_NEWLINK
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{{Index: 7, Name: "mlx5_0", Ports: 1, Protocol: "roce"}},
		Ports:   []netlinkrdma.Port{{DeviceIndex: 7, DeviceName: "mlx5_0", Index: 1, State: verbs.PortActive, NetdevIndex: 4, NetdevName: "eth0"}},
		Fail:    map[uint16]error{cmdNewLink: syscall.EPERM},
	}
	c := netlinkrdma.Client{Kernel: kernel}
	ports, err := c.Ports(7)
	if err != nil {
		fmt.Println(err)
	}
	for _, p := range ports {
		fmt.Println(p.DeviceName, p.Index, p.State, p.NetdevName)
	}
	if err := c.AddLink("siw0", "siw", "eth0"); errors.Is(err, netlinkrdma.ErrPermission) {
		fmt.Println(err)
	}
	// Output:
	// mlx5_0 1 ACTIVE eth0
	// add link siw0 type siw netdev eth0: needs CAP_NET_ADMIN in the initial user namespace: operation not permitted: run as root, or setcap cap_net_admin+ep
}
