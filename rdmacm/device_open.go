package rdmacm

import (
	"errors"
	"net/netip"
	"syscall"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// OpenDevice opens the RDMA device that has a local address, be it of a VLAN or a bond, and
// returns the number of the port. The kernel's connection manager chooses both, as it does
// for Dial and Listen.
//
// C: rdma_bind_addr, id->verbs, id->port_num
func OpenDevice(local netip.Addr) (dev *uverbs.Device, port uint32, err error) {
	addr, err := deviceOf(local)
	if err != nil {
		return nil, 0, err
	}
	dev, err = uverbs.OpenIndex(addr.DeviceIndex, addr.NodeGUID)
	return dev, addr.Port, err
}

// deviceOf has an ID for as long as it takes to ask.
func deviceOf(local netip.Addr) (addr *Addr, err error) {
	if err := ofOneDevice(local); err != nil {
		return nil, err
	}
	c, err := openChannel(kernel.Owner(local))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	id, err := c.NewID(verbs.PortSpaceTCP, verbs.QPTypeRC)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, id.Destroy()) }()
	if err := id.Bind(netip.AddrPortFrom(local, 0)); err != nil {
		return nil, err
	}
	return id.QueryAddr()
}

// ofOneDevice refuses addresses that more than one device may have.
func ofOneDevice(local netip.Addr) error {
	if !local.IsValid() || local.IsUnspecified() || local.IsLoopback() {
		return &OpError{Op: "bind", Object: local.String(), Err: syscall.EINVAL, Hint: "no device in particular has it: give an address of an interface with an RDMA link"}
	}
	return nil
}
