package netlinkrdma

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// RenameDevice gives the device with this index another name, of those that
// [Client.AddLink] takes. The index stays. It needs CAP_NET_ADMIN, and fails
// with EEXIST when a device, of whatever namespace, has that name.
//
// C: rdma dev set DEV name NAME
func (c *Client) RenameDevice(device uint32, name string) error {
	what := fmt.Sprintf("rename RDMA device %d to %s", device, name)
	if err := checkName("name", name, maxDeviceName); err != nil {
		return fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	err := c.setDevice(what, device, Attr{abi.RDMA_NLDEV_ATTR_DEV_NAME, stringValue(name)})
	return remedy(err, syscall.EEXIST, "another device has that name; it may live in another network namespace")
}

// SetAdaptiveModeration turns the moderation of interrupts by load on or off,
// for CQs the kernel makes from then on. It needs CAP_NET_ADMIN.
//
// C: rdma dev set DEV adaptive-moderation on
func (c *Client) SetAdaptiveModeration(device uint32, on bool) error {
	what := fmt.Sprintf("set adaptive moderation of RDMA device %d to %t", device, on)
	return c.setDevice(what, device, Attr{abi.RDMA_NLDEV_ATTR_DEV_DIM, boolValue(on)})
}

// MoveDevice moves the device with this index to another network namespace,
// which is an open /run/netns/NAME or /proc/PID/ns/net. Programs that have the
// device open lose it. It needs CAP_NET_ADMIN in both namespaces, the exclusive
// mode (see [Client.SetNetnsMode]) and a driver that can take a device from its
// users; siw and rxe can't.
//
// To move it back, ask from where it is (see [Netns]); the index stays. When a
// namespace ends, the kernel moves its devices to the first one. It sends no
// event of either.
//
// C: rdma dev set DEV netns NETNS
func (c *Client) MoveDevice(device uint32, to *os.File) error {
	if to == nil {
		return fmt.Errorf("netlinkrdma: move RDMA device %d: no network namespace is given: %w", device, os.ErrInvalid)
	}
	what := fmt.Sprintf("move RDMA device %d to network namespace %s", device, to.Name())
	err := c.setDevice(what, device, Attr{abi.RDMA_NLDEV_NET_NS_FD, uint32Value(uint32(to.Fd()))})
	runtime.KeepAlive(to)
	err = remedy(err, syscall.EINVAL, "there is no such device here, or this file is no network namespace")
	return remedy(err, syscall.EOPNOTSUPP,
		"in shared mode devices belong to all namespaces: rdma system set netns exclusive; in exclusive mode it is the driver that can't, as siw and rxe")
}

func (c *Client) setDevice(what string, device uint32, to Attr) error {
	_, err := c.call(what, Request{Op: abi.RDMA_NLDEV_CMD_SET, Attrs: []Attr{byIndex(device), to}})
	return err
}
