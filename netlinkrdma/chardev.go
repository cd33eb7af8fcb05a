package netlinkrdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
)

// CharDev is a character device of the RDMA subsystem. Compare the device number
// of its node (st_rdev) with Major and Minor before trusting it, since names are
// used again.
type CharDev struct {
	Name     string // uverbs0, umad0, rdma_cm
	ABI      uint64 // of the driver for uverbs (siw 1, rxe 2), of rdma_cm itself
	Major    uint32
	Minor    uint32
	DriverID uint32 // RDMA_DRIVER_…, picks the provider; 0 for all but uverbs
}

// Path is where its node is, unless the system is set up in another way.
func (d CharDev) Path() string { return "/dev/infiniband/" + d.Name }

// UverbsCharDev tells the verbs node of the device with this index. The
// kernel loads ib_uverbs for it when need be.
func (c *Client) UverbsCharDev(device uint32) (CharDev, error) {
	return c.charDev("uverbs", byIndex(device))
}

// UmadCharDev tells the node for management datagrams of this port, which
// InfiniBand, OmniPath and RoCE have. The kernel loads ib_umad for it when need be.
func (c *Client) UmadCharDev(device, port uint32) (CharDev, error) {
	return c.charDev("umad", byPort(device, port)...)
}

// IssmCharDev tells the node by which a subnet manager says that it manages
// the subnet of this port.
func (c *Client) IssmCharDev(device, port uint32) (CharDev, error) {
	return c.charDev("issm", byPort(device, port)...)
}

// CMCharDev tells the node of the connection manager, of which there is one
// for all devices. The kernel loads rdma_ucm for it when need be.
func (c *Client) CMCharDev() (CharDev, error) {
	return c.charDev("rdma_cm")
}

func (c *Client) charDev(kind string, of ...Attr) (CharDev, error) {
	what := "find the character device " + kind
	reply, err := c.callOne(what, Request{
		Op:    abi.RDMA_NLDEV_CMD_GET_CHARDEV,
		Attrs: append(of, Attr{abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE, stringValue(kind)}),
	})
	if err != nil {
		return CharDev{}, err
	}
	d, err := parseCharDev(reply)
	if err != nil {
		return CharDev{}, fmt.Errorf("netlinkrdma: %s: %w", what, err)
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

// splitDev undoes the kernel's huge_encode_dev, which is not the dev_t layout
// of user space: twelve bits of major number stand between two parts of the
// minor one.
func splitDev(v uint64) (major, minor uint32) {
	return uint32(v>>8) & 0xfff, uint32(v)&0xff | uint32(v>>12)&0xfff00
}
