package netlinkrdma

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// CounterMode says how the QPs of a port come to be bound to counters.
//
// C: enum rdma_nl_counter_mode
type CounterMode uint32

// The modes there are.
const (
	CountersNone   CounterMode = abi.RDMA_COUNTER_MODE_NONE   // no QP is bound
	CountersAuto   CounterMode = abi.RDMA_COUNTER_MODE_AUTO   // by [Client.SetAutoCounters], when a QP is given its port
	CountersManual CounterMode = abi.RDMA_COUNTER_MODE_MANUAL // by [Client.BindCounter]
)

var counterModeNames = [...]string{"none", "auto", "manual"}

// String gives a word, or CounterMode(27) for a value without one.
func (m CounterMode) String() string {
	if int64(m) < int64(len(counterModeNames)) {
		return counterModeNames[m]
	}
	return fmt.Sprintf("CounterMode(%d)", uint32(m))
}

// CounterMask is a set of traits: QPs that have these in common share a counter
// in automatic mode.
//
// C: enum rdma_nl_counter_mask
type CounterMask uint32

// The traits there are.
const (
	CountByType CounterMask = abi.RDMA_COUNTER_MASK_QP_TYPE
	// CountByPID is the kernel's word, but it compares threads: QPs that different
	// threads of one process made have different counters, as those of a Go process
	// often do. Threads that have ended are all alike to it.
	CountByPID CounterMask = abi.RDMA_COUNTER_MASK_PID
)

// String gives iproute2's words, type,pid, and a number for what has none.
func (m CounterMask) String() string {
	var words []string
	if m&CountByType != 0 {
		words = append(words, "type")
	}
	if m&CountByPID != 0 {
		words = append(words, "pid")
	}
	if rest := m &^ (CountByType | CountByPID); rest != 0 {
		words = append(words, fmt.Sprintf("CounterMask(%#x)", uint32(rest)))
	}
	return strings.Join(words, ",")
}

// CounterSetting is the mode of a port.
type CounterSetting struct {
	Mode CounterMode
	By   CounterMask // in automatic mode
	// Optional tells, in automatic mode, whether the QPs' counters count what is
	// optional too. Kernels as old as 6.12 never do, and don't say.
	Optional Opt[bool]
}

// CounterMode asks how QPs of this port come to be bound to counters.
//
// C: rdma statistic qp mode link DEV/PORT
func (c *Client) CounterMode(device, port uint32) (CounterSetting, error) {
	what := fmt.Sprintf("read the counter mode of port %d of RDMA device %d", port, device)
	// That the attribute is there tells the kernel what is wanted; its value is not read.
	wanted := Attr{abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32Value(0)}
	reply, err := c.callOne(what, Request{
		Op: abi.RDMA_NLDEV_CMD_STAT_GET, Attrs: append(byPort(device, port), counted(abi.RDMA_NLDEV_ATTR_RES_QP), wanted),
	})
	if err != nil {
		return CounterSetting{}, err
	}
	s, err := parseCounterSetting(reply)
	if err != nil {
		return CounterSetting{}, fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return s, nil
}

func parseCounterSetting(reply []byte) (CounterSetting, error) {
	var s CounterSetting
	mode := false
	a := attributes{rest: reply}
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_STAT_MODE:
			s.Mode, mode = CounterMode(a.uint32()), true
		case abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK:
			s.By = CounterMask(a.uint32())
		case abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED:
			s.Optional = known(a.uint8() != 0)
		}
	}
	a.require(mode, abi.RDMA_NLDEV_ATTR_STAT_MODE)
	if a.err != nil {
		return CounterSetting{}, a.err
	}
	return s, nil
}

// AutoOptions widen what is counted automatically. Nil means the zero value.
type AutoOptions struct {
	// Optional has the QPs' counters count what is optional too. Linux 7.2 can;
	// 6.12 fails with EINVAL.
	Optional bool
}

// SetAutoCounters has QPs of this port bound from then on, those with the same
// traits to the same counter; no traits turn it off. It needs CAP_NET_ADMIN,
// and fails with EBUSY while a QP is bound.
//
// C: rdma statistic qp set link DEV/PORT auto type,pid on [optional-counters on]
func (c *Client) SetAutoCounters(device, port uint32, by CounterMask, o *AutoOptions) error {
	what := fmt.Sprintf("set automatic counters of port %d of RDMA device %d by %q", port, device, by)
	attrs := append(byPort(device, port), counted(abi.RDMA_NLDEV_ATTR_RES_QP),
		Attr{abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32Value(abi.RDMA_COUNTER_MODE_AUTO)},
		Attr{abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, uint32Value(uint32(by))})
	// To the kernel, off is the same as left out, and an older one takes no more.
	optional := o != nil && o.Optional
	if optional {
		attrs = append(attrs, Attr{abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, boolValue(true)})
	}
	_, err := c.callOne(what, Request{Op: abi.RDMA_NLDEV_CMD_STAT_SET, Attrs: attrs})
	if optional {
		err = remedy(err, syscall.EINVAL, "older kernels, as 6.12, can't do this for optional counters")
	}
	return remedy(statRemedy(err), syscall.EBUSY, "unbind the QPs first, or turn the other mode off")
}

// statRemedy tells what the errors of all changes to statistics come from.
func statRemedy(err error) error {
	err = remedy(err, syscall.EOPNOTSUPP, "the driver has no such counters")
	return remedy(err, syscall.EINVAL, "there is no such device or port, or its counters are not in a mode that allows this: rdmalink statistic qp mode")
}
