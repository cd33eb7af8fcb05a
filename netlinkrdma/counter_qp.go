package netlinkrdma

import (
	"fmt"
	"iter"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// CounterID is the number of a QP counter on its port.
type CounterID uint32

// QPCounter is a set of counters that counts only for the QPs bound to it.
type QPCounter struct {
	Owner    // known in automatic mode with CountByPID
	ID       CounterID
	Port     int
	Mode     CounterMode
	QPType   Opt[verbs.QPType] // known in automatic mode with CountByType
	LQPN     []QPRange         // bound QPs
	Counters []Counter
}

var qpCounterResource = tracked[QPCounter]{
	name: "QP counter", op: abi.RDMA_NLDEV_CMD_STAT_GET, stat: abi.RDMA_NLDEV_ATTR_RES_QP,
	table: abi.RDMA_NLDEV_ATTR_STAT_COUNTER, entry: abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, id: abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID,
	parse: parseQPCounter, number: func(q *QPCounter) uint32 { return uint32(q.ID) },
}

// QPCounters yields the QP counters of the device with this index while the kernel lists
// them. It ends after an error. There are none until QPs are bound, see
// [Client.SetAutoCounters] and [Client.BindCounter].
//
// C: rdma statistic qp show
func (c *Client) QPCounters(device uint32, o *ListOptions) iter.Seq2[QPCounter, error] {
	return qpCounterResource.dump(c, device, o)
}

// QPCounter returns the QP counter with this number. The kernel requires its port as
// well.
func (c *Client) QPCounter(device uint32, port int, id CounterID) (QPCounter, error) {
	return qpCounterResource.get(c, device, port, uint32(id))
}

func parseQPCounter(a *attributes, q *QPCounter) {
	var id, mode bool
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID:
			q.ID, id = CounterID(a.uint32()), true
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			q.Port = int(a.uint32())
		case abi.RDMA_NLDEV_ATTR_STAT_MODE:
			q.Mode, mode = CounterMode(a.uint32()), true
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			q.QPType = known(verbs.QPType(a.uint8()))
		case abi.RDMA_NLDEV_ATTR_RES_QP:
			q.LQPN = parseQPRanges(a)
		case abi.RDMA_NLDEV_ATTR_STAT_HWCOUNTERS:
			q.Counters = parseCounters(a)
		default:
			parseOwner(a, &q.Owner)
		}
	}
	a.require(id, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID)
	a.require(mode, abi.RDMA_NLDEV_ATTR_STAT_MODE)
}

// BindCounter creates a counter, binds a QP to it and returns the counter's number. The port
// must not be in automatic mode. The call needs CAP_NET_ADMIN. ENOENT means that there is no
// such QP, ENOMEM that the driver has no free counter.
//
// C: rdma statistic qp bind link DEV/PORT lqpn LQPN
func (c *Client) BindCounter(device uint32, port int, lqpn uint32) (CounterID, error) {
	op := operation{"bind", fmt.Sprintf("QP %d of %s to a counter", lqpn, portOf(device, port))}
	return c.bind(op, abi.RDMA_NLDEV_CMD_STAT_SET, device, port, lqpn, manualMode)
}

// BindToCounter binds a QP to a counter that another QP is bound to. It needs
// CAP_NET_ADMIN. ENOENT means that there is no such QP or counter.
//
// C: rdma statistic qp bind link DEV/PORT lqpn LQPN cntn CNTN
func (c *Client) BindToCounter(device uint32, port int, lqpn uint32, counter CounterID) error {
	op := operation{"bind", fmt.Sprintf("QP %d of %s to counter %d", lqpn, portOf(device, port), counter)}
	_, err := c.bind(op, abi.RDMA_NLDEV_CMD_STAT_SET, device, port, lqpn, manualMode, byCounter(counter))
	return err
}

// UnbindCounter unbinds a QP from a counter. The kernel deletes the counter with its last
// QP. The port must be in manual mode. The call needs CAP_NET_ADMIN.
//
// C: rdma statistic qp unbind link DEV/PORT cntn CNTN lqpn LQPN
func (c *Client) UnbindCounter(device uint32, port int, lqpn uint32, counter CounterID) error {
	op := operation{"unbind", fmt.Sprintf("QP %d of %s from counter %d", lqpn, portOf(device, port), counter)}
	_, err := c.bind(op, abi.RDMA_NLDEV_CMD_STAT_DEL, device, port, lqpn, manualMode, byCounter(counter))
	return err
}

var manualMode = Attr{abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32Value(abi.RDMA_COUNTER_MODE_MANUAL)}

func byCounter(id CounterID) Attr {
	return Attr{abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, uint32Value(uint32(id))}
}

// bind sends a request that changes one QP's counter, and returns the counter's number.
func (c *Client) bind(op operation, command uint16, device uint32, port int, lqpn uint32, more ...Attr) (CounterID, error) {
	attrs := append(byPort(device, port), counted(abi.RDMA_NLDEV_ATTR_RES_QP), Attr{abi.RDMA_NLDEV_ATTR_RES_LQPN, uint32Value(lqpn)})
	reply, err := c.callOne(op, Request{Op: command, Attrs: append(attrs, more...)})
	if err != nil {
		return 0, hint(statHints(err), syscall.ENOENT, "no such QP, or no such counter")
	}
	id, err := parseCounterID(reply)
	if err != nil {
		return 0, op.failed(err)
	}
	return id, nil
}

func parseCounterID(reply []byte) (CounterID, error) {
	var id CounterID
	found := false
	a := attributes{rest: reply}
	for a.next() {
		if a.typ == abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID {
			id, found = CounterID(a.uint32()), true
		}
	}
	a.require(found, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID)
	if a.err != nil {
		return 0, a.err
	}
	return id, nil
}

// CounterMode is how the QPs of a port are bound to counters.
//
// C: enum rdma_nl_counter_mode
type CounterMode uint32

// The modes.
const (
	CountersNone   CounterMode = abi.RDMA_COUNTER_MODE_NONE   // no QP is bound
	CountersAuto   CounterMode = abi.RDMA_COUNTER_MODE_AUTO   // by [Client.SetAutoCounters], when a QP gets its port
	CountersManual CounterMode = abi.RDMA_COUNTER_MODE_MANUAL // by [Client.BindCounter]
)

var counterModeNames = [...]string{"none", "auto", "manual"}

// String returns a word, or CounterMode(27) for a value without one.
func (m CounterMode) String() string {
	if int64(m) < int64(len(counterModeNames)) {
		return counterModeNames[m]
	}
	return fmt.Sprintf("CounterMode(%d)", uint32(m))
}

// CounterMask is a set of properties. In automatic mode, QPs that agree in all of them share
// a counter.
//
// C: enum rdma_nl_counter_mask
type CounterMask uint32

// The properties.
const (
	CountByType CounterMask = abi.RDMA_COUNTER_MASK_QP_TYPE
	// CountByPID compares threads, despite the kernel's name. QPs that different threads
	// of one process created, as is common in Go, have different counters. All threads
	// that have ended compare equal.
	CountByPID CounterMask = abi.RDMA_COUNTER_MASK_PID
)

// String returns iproute2's words, type and pid, and a number for bits without a word.
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
	By   CounterMask // set in automatic mode
	// Optional reports, in automatic mode, whether the QPs' counters include optional
	// ones. Kernels up to 6.12 never include them, and do not send the value.
	Optional Opt[bool]
}

// CounterMode returns how QPs of a port are bound to counters.
//
// C: rdma statistic qp mode link DEV/PORT
func (c *Client) CounterMode(device uint32, port int) (CounterSetting, error) {
	op := operation{"read the counter mode of", portOf(device, port)}
	// The kernel checks for this attribute and does not read its value.
	wanted := Attr{abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32Value(0)}
	reply, err := c.callOne(op, Request{
		Op: abi.RDMA_NLDEV_CMD_STAT_GET, Attrs: append(byPort(device, port), counted(abi.RDMA_NLDEV_ATTR_RES_QP), wanted),
	})
	if err != nil {
		return CounterSetting{}, err
	}
	s, err := parseCounterSetting(reply)
	if err != nil {
		return CounterSetting{}, op.failed(err)
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

// AutoOptions are options of automatic mode. Nil means the zero value.
type AutoOptions struct {
	// Optional includes optional counters. Linux 7.2 supports it; 6.12 returns EINVAL.
	Optional bool
}

// SetAutoCounters turns on automatic mode: QPs of this port that get their port from then on
// are bound to counters, and QPs that agree in by share one. An empty mask turns automatic
// mode off. The call needs CAP_NET_ADMIN, and fails with EBUSY while a QP is bound.
//
// C: rdma statistic qp set link DEV/PORT auto type,pid on [optional-counters on]
func (c *Client) SetAutoCounters(device uint32, port int, by CounterMask, o *AutoOptions) error {
	op := operation{"set automatic counters of", fmt.Sprintf("%s by %q", portOf(device, port), by)}
	attrs := append(byPort(device, port), counted(abi.RDMA_NLDEV_ATTR_RES_QP),
		Attr{abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32Value(abi.RDMA_COUNTER_MODE_AUTO)},
		Attr{abi.RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, uint32Value(uint32(by))})
	// Older kernels refuse the attribute. Its absence means off.
	optional := o != nil && o.Optional
	if optional {
		attrs = append(attrs, Attr{abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, boolValue(true)})
	}
	_, err := c.callOne(op, Request{Op: abi.RDMA_NLDEV_CMD_STAT_SET, Attrs: attrs})
	if optional {
		err = hint(err, syscall.EINVAL, "older kernels, such as 6.12, can't do this for optional counters")
	}
	return hint(statHints(err), syscall.EBUSY, "unbind the QPs first, or turn the other mode off")
}

// statHints adds hints to the errors of calls that change counters.
func statHints(err error) error {
	err = hint(err, syscall.EOPNOTSUPP, "the driver has no such counters")
	return hint(err, syscall.EINVAL, "no such device or port, or its counter mode does not allow this: see rdmalink statistic qp mode")
}
