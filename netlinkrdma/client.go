package netlinkrdma

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
)

// Client asks the kernel about RDMA devices and changes them. The zero value is ready to
// use and holds no resources. Several goroutines may use a Client at once. Calls take no
// context, because the kernel carries out a request inside the system call that sends it,
// which cannot be interrupted.
type Client struct {
	// Kernel answers the requests. Nil means the running kernel, with a new socket for each request. Programs that make
	// many requests set a Socket. Tests set a fake kernel (see package nltest).
	Kernel Kernel
}

// Kernel answers a [Client]'s requests, which are those of the NLDEV client of
// NETLINK_RDMA. Replies are not trusted: malformed ones make calls fail with
// [ErrMalformed].
type Kernel interface {
	// Execute sends one request and returns the payload of each reply. If the kernel
	// answers with an errno, in an acknowledgement or at the end of a dump, the error
	// wraps that syscall.Errno. A dump during which the kernel's list changed returns
	// EINTR.
	Execute(req Request) ([][]byte, error)
}

// Request is one NLDEV request.
type Request struct {
	Op    uint16 // RDMA_NLDEV_CMD_…
	Dump  bool   // ask for all objects (NLM_F_DUMP)
	Attrs []Attr
}

// Attr is one attribute of a request. Its value is laid out as the kernel reads it:
// integers in native byte order, strings with a NUL.
type Attr struct {
	Type  uint16 // RDMA_NLDEV_ATTR_…
	Value []byte
}

// nldevType is the type of NLDEV messages, without their operation.
//
// C: RDMA_NL_GET_TYPE
const nldevType = abi.RDMA_NL_NLDEV << 10

// invalid returns the meaning of EINVAL in the answer to r, or nil if several reasons are
// possible. The kernel returns EINVAL, not ENODEV, when a device is gone.
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

// dumpAttempts is how often a dump is tried if the kernel's list changes meanwhile.
const dumpAttempts = 10

func (c *Client) kernel() Kernel {
	if c.Kernel == nil {
		return runningKernel{}
	}
	return c.Kernel
}

// call executes req and wraps its error.
func (c *Client) call(op operation, req Request) ([][]byte, error) {
	k := c.kernel()
	for attempt := 1; ; attempt++ {
		replies, err := execute(k, req)
		if err == nil {
			return replies, nil
		}
		if !req.Dump || !errors.Is(err, syscall.EINTR) || attempt == dumpAttempts {
			return nil, explain(op, req, err)
		}
	}
}

// execute executes a request, and prints it if GOVERBS_DEBUG names netlink.
func execute(k Kernel, req Request) ([][]byte, error) {
	if debug.Netlink {
		return printExecute(k, req)
	}
	return k.Execute(req)
}

// Streamer is an optional interface of a [Kernel]. The running kernel implements it.
type Streamer interface {
	// Stream is like Execute, but calls f with each reply. The reply may be overwritten
	// after f returns. Stream ends early if f returns false.
	Stream(req Request, f func(reply []byte) bool) error
}

// stream is like call for a dump that may be long: it calls f with each reply. If the
// kernel's list changed during the dump, stream calls again, and repeats the dump if that
// returns true.
func (c *Client) stream(op operation, req Request, f func(reply []byte) bool, again func() bool) error {
	k := c.kernel()
	for attempt := 1; ; attempt++ {
		err := stream(k, req, f)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EINTR) || attempt == dumpAttempts || !again():
			return explain(op, req, err)
		}
	}
}

// stream executes a request, calls f with each reply, and prints the request if
// GOVERBS_DEBUG names netlink.
func stream(k Kernel, req Request, f func(reply []byte) bool) error {
	if debug.Netlink {
		return printStream(k, req, f)
	}
	return streamFrom(k, req, f)
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

// callOne executes a request to which the kernel sends exactly one reply.
func (c *Client) callOne(op operation, req Request) ([]byte, error) {
	replies, err := c.call(op, req)
	if err != nil {
		return nil, err
	}
	if len(replies) != 1 {
		return nil, op.failed(fmt.Errorf("%w: %d replies, want 1", ErrMalformed, len(replies)))
	}
	return replies[0], nil
}

// numbered names a device in errors.
func numbered(device uint32) string { return fmt.Sprintf("RDMA device %d", device) }

// portOf names a port in errors.
func portOf(device uint32, port int) string {
	return fmt.Sprintf("port %d of %s", port, numbered(device))
}

// byIndex returns the attribute that selects a device.
func byIndex(index uint32) Attr {
	return Attr{abi.RDMA_NLDEV_ATTR_DEV_INDEX, uint32Value(index)}
}

// byPort returns the attributes that select a port of a device.
func byPort(device uint32, port int) []Attr {
	return []Attr{byIndex(device), portAttr(port)}
}

// portAttr returns the attribute that selects a port. A number that does not fit becomes one that
// the kernel refuses, because its low bits would name another port.
func portAttr(port int) Attr {
	n := uint32(math.MaxUint32)
	if port >= 0 && uint64(port) < math.MaxUint32 {
		n = uint32(port)
	}
	return Attr{abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32Value(n)}
}
