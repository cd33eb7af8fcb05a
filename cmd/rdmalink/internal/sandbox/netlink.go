package sandbox

import (
	"encoding/binary"
	"errors"
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

// answerDatagram answers the requests of a datagram as the kernel does: a datagram for each
// message. It stops at the first header that is none.
func answerDatagram(k netlinkrdma.Kernel, port uint32, datagram []byte) (answers [][]byte) {
	for len(datagram) >= messageHeader {
		var h header
		copy(abi.Bytes(&h), datagram)
		if h.Length < messageHeader || uint64(h.Length) > uint64(len(datagram)) {
			break
		}
		answers = append(answers, answerMessage(k, port, h, datagram[messageHeader:h.Length])...)
		datagram = datagram[min(len(datagram), int(h.Length+3)&^3):]
	}
	return answers
}

func answerMessage(k netlinkrdma.Kernel, port uint32, h header, body []byte) (answers [][]byte) {
	reply := header{Type: h.Type, Seq: h.Seq, PID: port}
	if h.Type&^0x3ff != nldev {
		return [][]byte{errorMessage(reply, h, syscall.EINVAL)}
	}
	req := netlinkrdma.Request{Op: h.Type & 0x3ff, Dump: h.Flags&flagDump == flagDump, Attrs: attributes(body)}
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
