package netlinkrdma

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Client asks the kernel about RDMA devices and changes them. The zero value is ready to use, holds no resources and may be used
// by several goroutines at once. A call takes no context: the kernel answers
// inside the send, which nothing can interrupt.
type Client struct {
	// Kernel answers the requests. Nil means the running kernel; tests put
	// one of their own here (see the nltest package).
	Kernel Kernel
}

// Kernel is the seam below [Client]: something that answers NETLINK_RDMA
// requests of the NLDEV client. Replies are never trusted: a Kernel that
// returns nonsense makes calls fail with [ErrMalformed], not panic.
type Kernel interface {
	// Execute sends one request and returns the payload of each reply to it.
	// An errno the kernel answered with, in an acknowledgement or at the end
	// of a dump, is returned as an error that wraps the syscall.Errno; a dump
	// that was disturbed while it ran returns EINTR.
	Execute(req Request) ([][]byte, error)
}

// Request is one NLDEV request.
type Request struct {
	Op    uint16 // RDMA_NLDEV_CMD_…
	Dump  bool   // ask for all objects (NLM_F_DUMP)
	Attrs []Attr
}

// Attr is one attribute of a request: its value is laid out as the kernel
// wants it, in native byte order, strings with their NUL.
type Attr struct {
	Type  uint16 // RDMA_NLDEV_ATTR_…
	Value []byte
}

// nldevType is the type of NLDEV messages, without their operation.
//
// C: RDMA_NL_GET_TYPE
const nldevType = abi.RDMA_NL_NLDEV << 10

// invalid tells what EINVAL means in answer to req, if that is known. The
// kernel says it, not ENODEV, when a device is gone.
func (r Request) invalid() error {
	switch r.Op {
	case abi.RDMA_NLDEV_CMD_DELLINK, abi.RDMA_NLDEV_CMD_NEWDEV, abi.RDMA_NLDEV_CMD_DELDEV,
		abi.RDMA_NLDEV_CMD_STAT_SET, abi.RDMA_NLDEV_CMD_STAT_DEL, abi.RDMA_NLDEV_CMD_FRMR_POOLS_SET:
		return nil // there are other reasons
	case abi.RDMA_NLDEV_CMD_FRMR_POOLS_GET:
		return ErrNoFRMRPools
	case abi.RDMA_NLDEV_CMD_STAT_GET, abi.RDMA_NLDEV_CMD_STAT_GET_STATUS:
		return ErrNoStatistics
	}
	switch {
	case slices.ContainsFunc(r.Attrs, func(a Attr) bool { return a.Type == abi.RDMA_NLDEV_NET_NS_FD }):
		return nil // it may be no namespace
	case slices.ContainsFunc(rawResources[:], func(k tracked[[]byte]) bool { return k.op == r.Op }):
		return ErrNoRaw
	case len(r.Attrs) > 0 && r.Attrs[0].Type == abi.RDMA_NLDEV_ATTR_DEV_INDEX:
		return ErrNotFound
	}
	return nil
}

// dumpAttempts bounds how often a disturbed dump is asked for again.
const dumpAttempts = 10

func (c *Client) kernel() Kernel {
	if c.Kernel == nil {
		return runningKernel{}
	}
	return c.Kernel
}

// call executes req and explains its failure; what names the operation.
func (c *Client) call(what string, req Request) ([][]byte, error) {
	k := c.kernel()
	for attempt := 1; ; attempt++ {
		replies, err := k.Execute(req)
		if err == nil {
			return replies, nil
		}
		if !req.Dump || !errors.Is(err, syscall.EINTR) || attempt == dumpAttempts {
			return nil, explain(what, req, err)
		}
	}
}

// Streamer is what a [Kernel] may be besides, as the running one is.
type Streamer interface {
	// Stream is Execute that hands out the replies one by one. A reply may be
	// overwritten when f has returned; when it returns false that is the end.
	Stream(req Request, f func(reply []byte) bool) error
}

// stream is call for a dump that may be long: replies are given to f. Before a
// disturbed dump is asked for again, again is called, and may refuse.
func (c *Client) stream(what string, req Request, f func(reply []byte) bool, again func() bool) error {
	k := c.kernel()
	for attempt := 1; ; attempt++ {
		err := streamFrom(k, req, f)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EINTR) || attempt == dumpAttempts || !again():
			return explain(what, req, err)
		}
	}
}

func streamFrom(k Kernel, req Request, f func(reply []byte) bool) error {
	if s, ok := k.(Streamer); ok {
		return s.Stream(req, f)
	}
	replies, err := k.Execute(req)
	for _, reply := range replies {
		if !f(reply) {
			return nil
		}
	}
	return err
}

// callOne executes a request that has exactly one reply.
func (c *Client) callOne(what string, req Request) ([]byte, error) {
	replies, err := c.call(what, req)
	if err != nil {
		return nil, err
	}
	if len(replies) != 1 {
		return nil, fmt.Errorf("netlinkrdma: %s: %w: %d replies, want 1", what, ErrMalformed, len(replies))
	}
	return replies[0], nil
}

// byIndex is the attribute that names a device.
func byIndex(index uint32) Attr {
	return Attr{abi.RDMA_NLDEV_ATTR_DEV_INDEX, uint32Value(index)}
}

// byPort are the attributes that name a port of a device.
func byPort(device, port uint32) []Attr {
	return []Attr{byIndex(device), {abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32Value(port)}}
}
