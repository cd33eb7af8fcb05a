package netlinkrdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// NetnsMode is how network namespaces share RDMA devices.
type NetnsMode uint8

// The modes.
const (
	NetnsExclusive NetnsMode = 0 // a device belongs to one namespace
	NetnsShared    NetnsMode = 1 // every namespace sees every device
)

var netnsModeNames = [...]string{"exclusive", "shared"}

// String returns iproute2's word, or NetnsMode(27) for a value without one.
func (m NetnsMode) String() string { return wordFor("NetnsMode", netnsModeNames[:], uint8(m)) }

// System has the settings that apply to all RDMA devices.
type System struct {
	NetnsMode NetnsMode
	// CopyOnFork reports whether fork copies pinned pages for the child, so that no
	// madvise (ibv_fork_init) is needed.
	CopyOnFork bool
	// PrivilegedQKey reports whether processes without CAP_NET_RAW may use Q_Keys whose
	// highest bit is set. It is not known on older kernels.
	PrivilegedQKey Opt[bool]
	// Monitor reports whether the kernel sends events, see [Client.Subscribe]. It cannot
	// be changed.
	Monitor bool
}

// System returns the settings that apply to all RDMA devices.
//
// C: rdma system show
func (c *Client) System() (System, error) {
	op := operation{"read", "the RDMA system settings"}
	reply, err := c.callOne(op, Request{Op: abi.RDMA_NLDEV_CMD_SYS_GET})
	if err != nil {
		return System{}, err
	}
	s, err := parseSystem(reply)
	if err != nil {
		return System{}, op.failed(err)
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

// SetNetnsMode sets how network namespaces share the devices. It needs CAP_NET_ADMIN, and
// fails with EBUSY if there is a namespace besides the initial one.
//
// C: rdma system set netns MODE
func (c *Client) SetNetnsMode(mode NetnsMode) error {
	err := c.setSystem(fmt.Sprintf("netns mode %v", mode), Attr{abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, []byte{uint8(mode)}})
	return hint(err, syscall.EBUSY, "other network namespaces exist; set it before any is created, or with option netns_mode of module ib_core")
}

// SetPrivilegedQKey sets whether processes without CAP_NET_RAW may use Q_Keys whose highest
// bit is set. It needs CAP_NET_ADMIN. It fails with EINVAL on kernels without this setting.
// Linux 6.7 and later releases of 6.1 have it.
//
// C: rdma system set privileged-qkey on
func (c *Client) SetPrivilegedQKey(on bool) error {
	err := c.setSystem(fmt.Sprintf("privileged Q_Keys to %t", on), Attr{abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, boolValue(on)})
	return hint(err, syscall.EINVAL, "this kernel has no such setting; Linux 6.7 has it, and later releases of 6.1")
}

func (c *Client) setSystem(what string, to Attr) error {
	_, err := c.call(operation{"set", what}, Request{Op: abi.RDMA_NLDEV_CMD_SYS_SET, Attrs: []Attr{to}})
	return err
}
