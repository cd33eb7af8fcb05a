package netlinkrdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// AddSubDevice makes a device of this type and name that belongs to the device
// with this index. It needs CAP_NET_ADMIN, a kernel that knows of sub-devices,
// as 6.12 does and 6.1 does not, and hardware that has them: some mlx5 have.
//
// C: rdma dev add NAME type SMI parent DEV
func (c *Client) AddSubDevice(parent uint32, name string, typ DeviceType) error {
	what := fmt.Sprintf("add sub-device %s type %v to RDMA device %d", name, typ, parent)
	if err := checkName("name", name, maxSubDeviceName); err != nil {
		return fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	_, err := c.call(what, Request{
		Op: abi.RDMA_NLDEV_CMD_NEWDEV,
		Attrs: []Attr{
			byIndex(parent),
			{abi.RDMA_NLDEV_ATTR_DEV_NAME, stringValue(name)},
			{abi.RDMA_NLDEV_ATTR_DEV_TYPE, []byte{uint8(typ)}},
		},
	})
	err = remedy(err, syscall.EOPNOTSUPP, "this device has no sub-devices of that type")
	return remedy(err, syscall.EINVAL, "there is no such device, or this kernel knows of no sub-devices, as 6.1")
}

// maxSubDeviceName is shorter than that of other devices, for no reason that
// could be seen: the kernel cuts at IFNAMSIZ.
const maxSubDeviceName = 15

// DeleteSubDevice deletes the sub-device with this index. It needs
// CAP_NET_ADMIN. Links are deleted with [Client.DeleteLink] instead.
//
// C: rdma dev delete DEV
func (c *Client) DeleteSubDevice(device uint32) error {
	_, err := c.call(fmt.Sprintf("delete sub-device RDMA device %d", device), Request{
		Op: abi.RDMA_NLDEV_CMD_DELDEV, Attrs: []Attr{byIndex(device)},
	})
	err = remedy(err, syscall.EOPNOTSUPP, "it is no sub-device; rdma link delete takes siw and rxe away")
	return remedy(err, syscall.EINVAL, "there is no such device, or this kernel knows of no sub-devices, as 6.1")
}
