package netlinkrdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// NetnsMode says how network namespaces share RDMA devices.
type NetnsMode uint8

// The modes there are.
const (
	NetnsExclusive NetnsMode = 0 // a device belongs to one namespace
	NetnsShared    NetnsMode = 1 // every namespace sees every device
)

var netnsModeNames = [...]string{"exclusive", "shared"}

// String gives iproute2's word, or NetnsMode(27) for a value without one.
func (m NetnsMode) String() string { return wordFor("NetnsMode", netnsModeNames[:], uint8(m)) }

// System is what holds for all RDMA devices.
type System struct {
	NetnsMode NetnsMode
	// CopyOnFork: pinned pages are copied for the child when a process forks, so
	// that no madvise (ibv_fork_init) is needed.
	CopyOnFork bool
	// PrivilegedQKey: processes without CAP_NET_RAW may use the Q_Keys whose
	// highest bit is set. Older kernels don't tell.
	PrivilegedQKey Opt[bool]
	// Monitor: the kernel sends events, see [Client.Subscribe]. There is nothing
	// to turn on.
	Monitor bool
}

// System asks for it.
//
// C: rdma system show
func (c *Client) System() (System, error) {
	const what = "read the RDMA system settings"
	reply, err := c.callOne(what, Request{Op: abi.RDMA_NLDEV_CMD_SYS_GET})
	if err != nil {
		return System{}, err
	}
	s, err := parseSystem(reply)
	if err != nil {
		return System{}, fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return s, nil
}

func parseSystem(reply []byte) (System, error) {
	var s System
	var mode bool
	a := attributes{rest: reply}
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE:
			s.NetnsMode, mode = NetnsMode(a.uint8()), true
		case abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK:
			s.CopyOnFork = a.uint8() != 0
		case abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE:
			s.PrivilegedQKey = known(a.uint8() != 0)
		case abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE:
			s.Monitor = a.uint8() != 0
		}
	}
	a.require(mode, abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE)
	if a.err != nil {
		return System{}, a.err
	}
	return s, nil
}

// SetNetnsMode says how network namespaces share the devices. It needs
// CAP_NET_ADMIN, and fails with EBUSY when there is a namespace but the first.
//
// C: rdma system set netns MODE
func (c *Client) SetNetnsMode(mode NetnsMode) error {
	err := c.setSystem(fmt.Sprintf("set netns mode %v", mode), Attr{abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, []byte{uint8(mode)}})
	return remedy(err, syscall.EBUSY, "there are other network namespaces; set it before any is made, or with option netns_mode of module ib_core")
}

// SetPrivilegedQKey says whether processes without CAP_NET_RAW may use the
// Q_Keys whose highest bit is set. It needs CAP_NET_ADMIN, and fails with
// EINVAL on kernels that have no such setting: Linux 6.7 has it, and later
// releases of 6.1.
//
// C: rdma system set privileged-qkey on
func (c *Client) SetPrivilegedQKey(on bool) error {
	err := c.setSystem(fmt.Sprintf("set privileged Q_Keys to %t", on), Attr{abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, boolValue(on)})
	return remedy(err, syscall.EINVAL, "this kernel has no such setting; Linux 6.7 has it, and later releases of 6.1")
}

func (c *Client) setSystem(what string, to Attr) error {
	_, err := c.call(what, Request{Op: abi.RDMA_NLDEV_CMD_SYS_SET, Attrs: []Attr{to}})
	return err
}
