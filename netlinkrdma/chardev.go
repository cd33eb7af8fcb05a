package netlinkrdma

import (
	"github.com/goverbs/goverbs/internal/abi"
)

// CharDev is a character device of the RDMA subsystem. Names are reused: before you trust a
// node, compare its device number (st_rdev) with Major and Minor.
type CharDev struct {
	Name     string // uverbs0, umad0, rdma_cm
	ABI      uint64 // version of the driver's ABI for uverbs (siw 1, rxe 2), of the device's own ABI for others
	Major    uint32
	Minor    uint32
	DriverID uint32 // RDMA_DRIVER_…, selects the provider; 0 unless it is a uverbs device
}

// Path returns the path of its node on a system with the usual udev rules.
func (d CharDev) Path() string { return "/dev/infiniband/" + d.Name }

// UverbsCharDev returns the verbs character device of the device with this index. The
// kernel loads ib_uverbs if necessary.
func (c *Client) UverbsCharDev(device uint32) (CharDev, error) {
	return c.charDev("uverbs", byIndex(device))
}

// UmadCharDev returns the character device for management datagrams of a port. InfiniBand,
// OmniPath and RoCE ports have one. The kernel loads ib_umad if necessary.
func (c *Client) UmadCharDev(device uint32, port int) (CharDev, error) {
	return c.charDev("umad", byPort(device, port)...)
}

// IssmCharDev returns the character device that a subnet manager keeps open while it manages
// the subnet of a port.
func (c *Client) IssmCharDev(device uint32, port int) (CharDev, error) {
	return c.charDev("issm", byPort(device, port)...)
}

// CMCharDev returns the character device of the connection manager, which serves all
// devices. The kernel loads rdma_ucm if necessary.
func (c *Client) CMCharDev() (CharDev, error) {
	return c.charDev("rdma_cm")
}

func (c *Client) charDev(kind string, of ...Attr) (CharDev, error) {
	op := operation{"find the character device", kind}
	reply, err := c.callOne(op, Request{
		Op:    abi.RDMA_NLDEV_CMD_GET_CHARDEV,
		Attrs: append(of, Attr{abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE, stringValue(kind)}),
	})
	if err != nil {
		return CharDev{}, err
	}
	d, err := parseCharDev(reply)
	if err != nil {
		return CharDev{}, op.failed(err)
	}
	return d, nil
}

func parseCharDev(reply []byte) (CharDev, error) {
	var d CharDev
	var number bool
	a := attributes{rest: reply}
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_CHARDEV_NAME:
			d.Name = a.string()
		case abi.RDMA_NLDEV_ATTR_CHARDEV_ABI:
			d.ABI = a.uint64()
		case abi.RDMA_NLDEV_ATTR_CHARDEV:
			d.Major, d.Minor = splitDev(a.uint64())
			number = true
		case abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID:
			d.DriverID = a.uint32()
		}
	}
	a.require(d.Name != "", abi.RDMA_NLDEV_ATTR_CHARDEV_NAME)
	a.require(number, abi.RDMA_NLDEV_ATTR_CHARDEV)
	if a.err != nil {
		return CharDev{}, a.err
	}
	return d, nil
}

// splitDev decodes the kernel's huge_encode_dev, which differs from the dev_t of user space:
// the minor number has its low 8 bits below the 12 bits of the major number, and the rest
// above them.
func splitDev(v uint64) (major, minor uint32) {
	return uint32(v>>8) & 0xfff, uint32(v)&0xff | uint32(v>>12)&0xfff00
}
