package rdmacm

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// SetTOS sets the IPv4 type of service or IPv6 traffic class of the
// connection's packets. Set it before ResolveRoute.
//
// C: rdma_set_option(RDMA_OPTION_ID_TOS)
func (id *ID) SetTOS(tos uint8) error {
	return setIDOption(id, "TOS", abi.RDMA_OPTION_ID_TOS, [1]uint8{tos})
}

// SetReuseAddr lets several IDs share a local address. Set it before Bind.
//
// C: rdma_set_option(RDMA_OPTION_ID_REUSEADDR)
func (id *ID) SetReuseAddr(on bool) error {
	return setIDOption(id, "REUSEADDR", abi.RDMA_OPTION_ID_REUSEADDR, [1]int32{int32(flag(on))})
}

// SetAFOnly keeps an IPv6 wildcard address from standing for IPv4 too. Set it
// before Bind.
//
// C: rdma_set_option(RDMA_OPTION_ID_AFONLY)
func (id *ID) SetAFOnly(on bool) error {
	return setIDOption(id, "AFONLY", abi.RDMA_OPTION_ID_AFONLY, [1]int32{int32(flag(on))})
}

// SetAckTimeout sets how long the queue pair waits for an acknowledgement:
// 4.096 µs times 2 to the power of exponent, which is 0 (for ever) to 31. Not
// on iWARP. Set it before Connect or Accept.
//
// C: rdma_set_option(RDMA_OPTION_ID_ACK_TIMEOUT)
func (id *ID) SetAckTimeout(exponent uint8) error {
	return setIDOption(id, "ACK_TIMEOUT", abi.RDMA_OPTION_ID_ACK_TIMEOUT, [1]uint8{exponent})
}

// setIDOption sets an option that all transports know.
func setIDOption[T [1]uint8 | [1]int32](id *ID, name string, option uint32, value T) error {
	return hinted("set option "+name, id, setOption(id, abi.RDMA_OPTION_ID, option, value), map[syscall.Errno]string{
		syscall.EINVAL: "too late in the ID's life, or a value that the transport doesn't have",
		syscall.ENOSYS: "this kernel has no such option",
	})
}

// setOption lends the value to the kernel from where other commands have
// their answer: memory that does not move.
func setOption[T any](id *ID, level, option uint32, value T) error {
	r := newRequest[abi.RdmaUcmSetOption, T](abi.RDMA_USER_CM_CMD_SET_OPTION)
	defer r.free()
	r.hdr.Out = 0
	r.resp = value
	r.body.Optval, r.body.Optlen = r.respAddr(), uint32(len(r.out()))
	r.body.Id, r.body.Level, r.body.Optname = id.handle, level, option
	return closedError(id.channel().file.Command(r.in(), r.out()))
}
