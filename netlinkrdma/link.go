package netlinkrdma

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// The longest names that the kernel keeps, without the NUL. It would cut longer ones.
const (
	maxDeviceName = 63 // IB_DEVICE_NAME_MAX
	maxNetdevName = 15 // IFNAMSIZ, which bounds link types too
)

// AddLink creates a software RDMA device on the network device netdev. typ is its driver,
// "siw" or "rxe". If the kernel does not know the driver, it tries to load module
// rdma-link-TYPE. The call needs CAP_NET_ADMIN in the initial user namespace.
//
// The errnos mean:
//   - ENODEV: there is no such netdev in this network namespace.
//   - EINVAL: the type is unknown and its module did not load, or the driver does not
//     support the netdev.
//   - ENFILE: the name is in use.
//   - EEXIST: the name is in use, or the netdev has a device of this type.
//   - ENOENT from rxe: module crc32_generic is not loaded.
//
// siw takes its GID from the netdev's hardware address when the link is added. The address
// of lo is zero, so rdma_cm cannot use a link on lo.
//
// C: rdma link add NAME type TYPE netdev NETDEV
func (c *Client) AddLink(name, typ, netdev string) error {
	op := fmt.Sprintf("add link %s type %s netdev %s", name, typ, netdev)
	if err := checkLinkNames(name, typ, netdev); err != nil {
		return fmt.Errorf("netlinkrdma: %s: %w", op, err)
	}
	_, err := c.call(op, Request{
		Op: abi.RDMA_NLDEV_CMD_NEWLINK,
		Attrs: []Attr{
			{abi.RDMA_NLDEV_ATTR_DEV_NAME, stringValue(name)},
			{abi.RDMA_NLDEV_ATTR_LINK_TYPE, stringValue(typ)},
			{abi.RDMA_NLDEV_ATTR_NDEV_NAME, stringValue(netdev)},
		},
	})
	return err
}

// checkLinkNames refuses names that the kernel would cut, or refuse without a reason.
func checkLinkNames(name, typ, netdev string) error {
	for _, n := range []struct {
		kind, value string
		longest     int
	}{
		{"name", name, maxDeviceName},
		{"type", typ, maxNetdevName},
		{"netdev", netdev, maxNetdevName},
	} {
		if err := checkName(n.kind, n.value, n.longest); err != nil {
			return err
		}
	}
	return nil
}

func checkName(kind, name string, longest int) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the %s is empty (%w)", ErrInvalidName, kind, syscall.EINVAL)
	case len(name) > longest:
		return fmt.Errorf("%w: the %s has %d bytes, the kernel takes at most %d (%w)", ErrInvalidName, kind, len(name), longest, syscall.EINVAL)
	case strings.ContainsAny(name, "%/\x00"):
		return fmt.Errorf("%w: the %s contains a percent sign, a slash or a NUL (%w)", ErrInvalidName, kind, syscall.EINVAL)
	}
	return nil
}

// DeleteLink deletes the software RDMA device with this index. It needs CAP_NET_ADMIN in
// the initial user namespace, and fails with EINVAL if the device is gone or is hardware.
// It blocks until every process has closed the device; signals do not interrupt it.
//
// C: rdma link delete NAME
func (c *Client) DeleteLink(device uint32) error {
	_, err := c.call(fmt.Sprintf("delete link of RDMA device %d", device), Request{
		Op: abi.RDMA_NLDEV_CMD_DELLINK, Attrs: []Attr{byIndex(device)},
	})
	return err
}
