package netlinkrdma

import (
	"errors"
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
// of lo is zero, so rdma_cm cannot use a link on lo. EnsureLink of package softlink sets what a
// network device lacks first.
//
// C: rdma link add NAME type TYPE netdev NETDEV
func (c *Client) AddLink(name, typ, netdev string) error {
	op := operation{"add link", fmt.Sprintf("%s type %s netdev %s", name, typ, netdev)}
	if err := checkLinkNames(name, typ, netdev); err != nil {
		return op.failed(err)
	}
	_, err := c.call(op, Request{
		Op: abi.RDMA_NLDEV_CMD_NEWLINK,
		Attrs: []Attr{
			{abi.RDMA_NLDEV_ATTR_DEV_NAME, stringValue(name)},
			{abi.RDMA_NLDEV_ATTR_LINK_TYPE, stringValue(typ)},
			{abi.RDMA_NLDEV_ATTR_NDEV_NAME, stringValue(netdev)},
		},
	})
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if text := addLinkHint(errno, name, typ, netdev); text != "" {
			err = hint(err, errno, text)
		}
	}
	return err
}

// addLinkHint lists the causes of an errno of AddLink, as they were determined on Linux 6.1 and 6.12.
func addLinkHint(errno syscall.Errno, name, typ, netdev string) string {
	switch {
	case errno == syscall.ENODEV:
		return fmt.Sprintf("there is no network device %s in this network namespace", netdev)
	case errno == syscall.EINVAL:
		return fmt.Sprintf("the kernel has no link type %q and found no module rdma-link-%s for it, or the driver does not support %s. %s", typ, typ, netdev, linkTypeRemedy(typ))
	case errno == syscall.ENFILE:
		return fmt.Sprintf("the name %s is taken: choose another, or rdmalink del %s", name, name)
	case errno == syscall.EEXIST:
		return fmt.Sprintf("the name %s is taken, or %s already has a link of type %s, and can have only one", name, netdev, typ)
	case errno == syscall.ENOENT && typ == "rxe":
		return "rxe needs the kernel's crc32: modprobe crc32_generic"
	case errno == syscall.EPERM && typ == "rxe":
		return "rxe also refuses VLANs so: add the link on the device below"
	}
	return ""
}

// linkTypeRemedy returns the remedy for a type that the kernel does not know.
func linkTypeRemedy(typ string) string {
	switch typ {
	case "siw":
		return "Try: modprobe siw. Some kernels, Debian's among them, are built without it (CONFIG_RDMA_SIW)"
	case "rxe":
		return "Try: modprobe rdma_rxe. Cloud kernels are often built without it (CONFIG_RDMA_RXE)"
	}
	return "The types are siw and rxe"
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
	_, err := c.call(operation{"delete link of", numbered(device)}, Request{
		Op: abi.RDMA_NLDEV_CMD_DELLINK, Attrs: []Attr{byIndex(device)},
	})
	return hint(err, syscall.EINVAL, "it belongs to hardware, or went away: only siw and rxe links can be deleted")
}
