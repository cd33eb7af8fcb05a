package netlinkrdma

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// The fixed parts of netlink: headers and flags that no operating system but
// linux has a name for, and that a test reads everywhere.
const (
	messageHeader = 16 // nlmsg_len u32, nlmsg_type u16, nlmsg_flags u16, nlmsg_seq u32, nlmsg_pid u32

	messageError = 2 // NLMSG_ERROR, also what acknowledges
	messageDone  = 3 // NLMSG_DONE ends a dump
	firstMessage = 16

	flagRequest     = 0x1   // NLM_F_REQUEST
	flagAck         = 0x4   // NLM_F_ACK
	flagInterrupted = 0x10  // NLM_F_DUMP_INTR
	flagCapped      = 0x100 // NLM_F_CAPPED: an error without the request's payload
	flagExtended    = 0x200 // NLM_F_ACK_TLVS
	flagDump        = 0x300 // NLM_F_DUMP

	extackText = 1 // NLMSGERR_ATTR_MSG
)

// answer follows the messages of one request.
type answer struct {
	seq         uint32
	done        bool // an acknowledgement, or the end of the dump, was seen
	interrupted bool // the dump was disturbed
}

// read takes the messages of one datagram and gives the payloads of replies to
// f, until f returns false. Messages of other requests are skipped.
func (a *answer) read(datagram []byte, f func(reply []byte) bool) error {
	for len(datagram) > 0 && !a.done {
		m, rest, err := nextMessage(datagram)
		if err != nil {
			return err
		}
		if binary.NativeEndian.Uint32(m[8:]) == a.seq {
			if err := a.message(m, f); err != nil {
				return err
			}
		}
		datagram = rest
	}
	return nil
}

// nextMessage takes the first message off a datagram.
func nextMessage(datagram []byte) (m, rest []byte, err error) {
	if len(datagram) < messageHeader {
		return nil, nil, fmt.Errorf("%w: %d bytes where a message should start", ErrMalformed, len(datagram))
	}
	length := uint64(binary.NativeEndian.Uint32(datagram))
	if length < messageHeader || length > uint64(len(datagram)) {
		return nil, nil, fmt.Errorf("%w: a message says it has %d bytes, of %d left", ErrMalformed, length, len(datagram))
	}
	return datagram[:length], datagram[min(int(length+3)&^3, len(datagram)):], nil
}

// nextNotification takes the attributes of the first notification off a
// datagram, passing over other messages; nil when there is none. Malformed
// bytes leave nothing.
func nextNotification(datagram []byte) (body, rest []byte, err error) {
	for len(datagram) > 0 {
		m, rest, err := nextMessage(datagram)
		if err != nil {
			return nil, nil, err
		}
		if binary.NativeEndian.Uint16(m[4:]) == nldevType|abi.RDMA_NLDEV_CMD_MONITOR {
			return m[messageHeader:], rest, nil
		}
		datagram = rest
	}
	return nil, nil, nil
}

func (a *answer) message(m []byte, f func(reply []byte) bool) error {
	flags := binary.NativeEndian.Uint16(m[6:])
	a.interrupted = a.interrupted || flags&flagInterrupted != 0
	body := m[messageHeader:]
	switch typ := binary.NativeEndian.Uint16(m[4:]); {
	case typ == messageError:
		a.done = true
		return a.verdict(body, flags, errorEcho(body, flags))
	case typ == messageDone:
		a.done = true
		if len(body) == 0 {
			return nil
		}
		return a.verdict(body, flags, 0)
	case typ >= firstMessage && !f(body):
		a.done, a.interrupted = true, false
	}
	return nil
}

// errorEcho is how much of the request stands in an error message, between the
// errno and the attributes that explain it.
func errorEcho(body []byte, flags uint16) uint64 {
	if flags&flagCapped != 0 || len(body) < 8 {
		return messageHeader
	}
	return (uint64(binary.NativeEndian.Uint32(body[4:])) + 3) &^ 3
}

// verdict reads the errno that ends an answer, and the text some errors have.
func (a *answer) verdict(body []byte, flags uint16, echo uint64) error {
	if len(body) < 4 {
		return fmt.Errorf("%w: %d bytes for an errno", ErrMalformed, len(body))
	}
	code := int32(binary.NativeEndian.Uint32(body))
	if code == 0 {
		return nil
	}
	errno := syscall.Errno(-code)
	if code > 0 { // some subsystems forget the sign
		errno = syscall.Errno(code)
	}
	if flags&flagExtended == 0 || 4+echo > uint64(len(body)) {
		return errno
	}
	for attrs := (attributes{rest: body[4+echo:]}); attrs.next(); {
		if attrs.typ == extackText {
			return fmt.Errorf("%s: %w", attrs.string(), errno)
		}
	}
	return errno
}

// message lays out a request.
func (r Request) message(seq uint32) []byte {
	size := messageHeader
	for _, a := range r.Attrs {
		size += attrHeader + (len(a.Value)+3)&^3
	}
	flags := uint16(flagRequest | flagAck)
	if r.Dump {
		flags |= flagDump
	}
	b := binary.NativeEndian.AppendUint32(make([]byte, 0, size), uint32(size))
	b = binary.NativeEndian.AppendUint16(b, nldevType|r.Op)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0) // the kernel's port
	for _, a := range r.Attrs {
		b = a.append(b)
	}
	return b
}
