package rdmacm

import (
	"errors"
	"net/netip"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// OpenDevice opens the RDMA device of a local address, which may be that of a VLAN or a bond. It also
// returns the number of the port. The kernel's connection manager chooses both, as it does for Dial
// and Listen.
//
// C: rdma_bind_addr, id->verbs, id->port_num
func OpenDevice(local netip.Addr) (dev *uverbs.Device, port int, err error) {
	addr, err := deviceOf(local)
	if err != nil {
		return nil, 0, err
	}
	dev, err = uverbs.OpenIndex(addr.DeviceIndex, addr.NodeGUID)
	return dev, addr.Port, err
}

// deviceOf binds a temporary ID to find the device of a local address.
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
	defer func() { err = errors.Join(err, id.Close()) }()
	if err := id.Bind(netip.AddrPortFrom(local, 0)); err != nil {
		return nil, err
	}
	return id.QueryAddr()
}

// ofOneDevice returns an error for an address that more than one device may have.
func ofOneDevice(local netip.Addr) error {
	if !local.IsValid() || local.IsUnspecified() || local.IsLoopback() {
		return &verbs.Error{Op: "bind", Object: local.String(), Err: syscall.EINVAL, Hint: "it does not select a single device: use the address of an interface with an RDMA link"}
	}
	return nil
}

// devices holds the RDMA devices that connections of this process have opened. A thousand connections
// over one device open it once.
var devices = deviceTable{open: uverbs.OpenIndex, shared: make(map[uint32]*sharedDevice)}

type deviceTable struct {
	open func(index uint32, guid verbs.GUID) (*uverbs.Device, error)

	mu     sync.Mutex
	shared map[uint32]*sharedDevice // by kernel index
}

type sharedDevice struct {
	table *deviceTable
	index uint32
	dev   *uverbs.Device
	refs  int
}

// get opens the device, or shares it if it is open. It compares the GUID too, because an index may be
// reused for another device.
func (t *deviceTable) get(index uint32, guid verbs.GUID) (*sharedDevice, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.shared[index]; s != nil && s.dev.Info().NodeGUID == guid {
		s.refs++
		return s, nil
	}
	dev, err := t.open(index, guid)
	if err != nil {
		return nil, err
	}
	s := &sharedDevice{table: t, index: index, dev: dev, refs: 1}
	t.shared[index] = s
	return s, nil
}

// put closes the device with its last user. While objects are left on the device it fails, and may be
// called again.
func (s *sharedDevice) put() error {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.refs > 1 {
		s.refs--
		return nil
	}
	if err := s.dev.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		return err
	}
	if s.table.shared[s.index] == s {
		delete(s.table.shared, s.index)
	}
	return nil
}
