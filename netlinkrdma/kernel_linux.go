package netlinkrdma

import (
	"errors"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
)

// runningKernel answers through a NETLINK_RDMA socket.
type runningKernel struct{}

// Execute matches replies by sequence number only: the kernel answers some
// operations under the name of another. The acknowledgement is asked for so
// that an operation without a reply reports its errno too.
func (runningKernel) Execute(req Request) ([][]byte, error) {
	flags := unix.NLM_F_ACK
	if req.Dump {
		flags |= unix.NLM_F_DUMP
	}
	// C: RDMA_NL_GET_TYPE
	msg := nl.NewNetlinkRequest(abi.RDMA_NL_NLDEV<<10|int(req.Op), flags)
	for _, a := range req.Attrs {
		msg.AddData(nl.NewRtAttr(int(a.Type), a.Value))
	}
	replies, err := msg.Execute(unix.NETLINK_RDMA, 0)
	if errors.Is(err, nl.ErrDumpInterrupted) {
		return nil, unix.EINTR
	}
	return replies, err
}
