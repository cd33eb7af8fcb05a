package sandbox

import (
	"encoding/binary"
	"errors"
	"iter"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// The header, types and flags of netlink messages. They stand here, because package unix has
// them on Linux only, and the messages are tested everywhere.
const (
	messageHeader = 16

	messageError = 2
	messageDone  = 3

	flagMulti = 0x2
	flagAck   = 0x4
	flagDump  = 0x300

	nldev = abi.RDMA_NL_NLDEV << 10
)

// header is struct nlmsghdr.
type header struct {
	Length uint32
	Type   uint16
	Flags  uint16
	Seq    uint32
	PID    uint32
}

// netlinkRequest is a message from a process.
type netlinkRequest struct {
	header
	body []byte
}

// splitDatagram yields the messages of a datagram. It stops at the first malformed header.
func splitDatagram(datagram []byte) iter.Seq[netlinkRequest] {
	return func(yield func(netlinkRequest) bool) {
		for len(datagram) >= messageHeader {
			var h header
			copy(abi.Bytes(&h), datagram)
			if h.Length < messageHeader || uint64(h.Length) > uint64(len(datagram)) || !yield(netlinkRequest{h, datagram[messageHeader:h.Length]}) {
				return
			}
			datagram = datagram[min(len(datagram), int(h.Length+3)&^3):]
		}
	}
}

// isDump reports whether a message asks for a list.
func (h header) isDump() bool { return h.Flags&flagDump == flagDump }

// answerMessage answers a message as the kernel does: each answer is a datagram.
func answerMessage(k netlinkrdma.Kernel, port uint32, h header, body []byte) (answers [][]byte) {
	reply := header{Type: h.Type, Seq: h.Seq, PID: port}
	if h.Type&^0x3ff != nldev {
		return [][]byte{errorMessage(reply, h, syscall.EINVAL)}
	}
	req := netlinkrdma.Request{Op: h.Type & 0x3ff, Dump: h.isDump(), Attrs: attributes(body)}
	payloads, err := k.Execute(req)
	if err != nil {
		return [][]byte{errorMessage(reply, h, err)}
	}
	if req.Dump {
		reply.Flags = flagMulti
	}
	for _, p := range payloads {
		answers = append(answers, encode(reply, p))
	}
	switch {
	case req.Dump:
		reply.Type = messageDone
		answers = append(answers, encode(reply, make([]byte, 4)))
	case h.Flags&flagAck != 0:
		answers = append(answers, errorMessage(reply, h, nil))
	}
	return answers
}

// errorMessage returns an error message, which is an acknowledgement if errno is 0.
func errorMessage(reply, request header, err error) []byte {
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		errno = syscall.EIO
	}
	reply.Type, reply.Flags = messageError, 0
	body := binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	return encode(reply, append(body, abi.Bytes(&request)...))
}

func encode(h header, body []byte) []byte {
	h.Length = uint32(messageHeader + len(body))
	return append(append([]byte(nil), abi.Bytes(&h)...), body...)
}

// attributes splits a message into its attributes. It stops at a malformed one.
func attributes(b []byte) (all []netlinkrdma.Attr) {
	const typeMask = 0x3fff
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			break
		}
		all = append(all, netlinkrdma.Attr{Type: binary.NativeEndian.Uint16(b[2:]) & typeMask, Value: b[4:n]})
		b = b[min(len(b), (n+3)&^3):]
	}
	return all
}

// attribute appends one.
func attribute(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, value...)
	return append(b, make([]byte, -len(value)&3)...)
}
