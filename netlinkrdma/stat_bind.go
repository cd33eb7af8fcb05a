package netlinkrdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// BindCounter binds a QP to a counter that is made for it, and tells its
// number. The port must not be in automatic mode. It needs CAP_NET_ADMIN.
// ENOENT says that there is no such QP, ENOMEM that the driver gave no counter.
//
// C: rdma statistic qp bind link DEV/PORT lqpn LQPN
func (c *Client) BindCounter(device, port, lqpn uint32) (uint32, error) {
	what := fmt.Sprintf("bind QP %d of port %d of RDMA device %d to a counter", lqpn, port, device)
	return c.bind(what, abi.RDMA_NLDEV_CMD_STAT_SET, device, port, lqpn, manualMode)
}

// BindToCounter binds a QP to the counter with this number, which another has
// already. It needs CAP_NET_ADMIN. ENOENT says that there is no such QP or
// counter.
//
// C: rdma statistic qp bind link DEV/PORT lqpn LQPN cntn CNTN
func (c *Client) BindToCounter(device, port, lqpn, counter uint32) error {
	what := fmt.Sprintf("bind QP %d of port %d of RDMA device %d to counter %d", lqpn, port, device, counter)
	_, err := c.bind(what, abi.RDMA_NLDEV_CMD_STAT_SET, device, port, lqpn, manualMode, byCounter(counter))
	return err
}

// UnbindCounter takes a QP off the counter with this number, which goes away
// with its last QP. The port must be in manual mode. It needs CAP_NET_ADMIN.
//
// C: rdma statistic qp unbind link DEV/PORT cntn CNTN lqpn LQPN
func (c *Client) UnbindCounter(device, port, lqpn, counter uint32) error {
	what := fmt.Sprintf("unbind QP %d of port %d of RDMA device %d from counter %d", lqpn, port, device, counter)
	_, err := c.bind(what, abi.RDMA_NLDEV_CMD_STAT_DEL, device, port, lqpn, manualMode, byCounter(counter))
	return err
}

var manualMode = Attr{abi.RDMA_NLDEV_ATTR_STAT_MODE, uint32Value(abi.RDMA_COUNTER_MODE_MANUAL)}

func byCounter(id uint32) Attr {
	return Attr{abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, uint32Value(id)}
}

// bind is what changes one QP have in common; the kernel answers with the
// counter's number.
func (c *Client) bind(what string, op uint16, device, port, lqpn uint32, more ...Attr) (uint32, error) {
	attrs := append(byPort(device, port), counted(abi.RDMA_NLDEV_ATTR_RES_QP), Attr{abi.RDMA_NLDEV_ATTR_RES_LQPN, uint32Value(lqpn)})
	reply, err := c.callOne(what, Request{Op: op, Attrs: append(attrs, more...)})
	if err != nil {
		return 0, remedy(statRemedy(err), syscall.ENOENT, "there is no such QP, or no such counter")
	}
	id, err := parseCounterID(reply)
	if err != nil {
		return 0, fmt.Errorf("netlinkrdma: %s: %w", what, err)
	}
	return id, nil
}

func parseCounterID(reply []byte) (uint32, error) {
	var id uint32
	found := false
	a := attributes{rest: reply}
	for a.next() {
		if a.typ == abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID {
			id, found = a.uint32(), true
		}
	}
	a.require(found, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID)
	if a.err != nil {
		return 0, a.err
	}
	return id, nil
}
