package sandbox

import (
	"encoding/binary"
	"slices"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// stubKernel answers each request with its replies.
type stubKernel struct {
	replies [][]byte
	err     error
	got     *[]netlinkrdma.Request
}

func (k stubKernel) Execute(req netlinkrdma.Request) ([][]byte, error) {
	*k.got = append(*k.got, req)
	return k.replies, k.err
}

func datagram(typ, flags uint16, body []byte) []byte {
	return encode(header{Type: typ, Flags: flags, Seq: 7}, body)
}

// types returns the types of the messages.
func types(t *testing.T, messages [][]byte) (all []uint16) {
	for _, m := range messages {
		if seq := binary.NativeEndian.Uint32(m[8:]); seq != 7 || int(binary.NativeEndian.Uint32(m)) != len(m) || binary.NativeEndian.Uint32(m[12:]) != 99 {
			t.Errorf("header of %x", m)
		}
		all = append(all, binary.NativeEndian.Uint16(m[4:]))
	}
	return all
}

func answerDatagram(k netlinkrdma.Kernel, port uint32, b []byte) (answers [][]byte) {
	for q := range splitDatagram(b) {
		answers = append(answers, answerMessage(k, port, q.header, q.body)...)
	}
	return answers
}

func TestAnswerDatagram(t *testing.T) {
	const get = nldev | abi.RDMA_NLDEV_CMD_GET
	for _, c := range []struct {
		what  string
		typ   uint16
		flags uint16
		k     stubKernel
		want  []uint16
		errno int32
	}{
		{"a reply", get, 1, stubKernel{replies: [][]byte{{1, 2, 3, 4}}}, []uint16{get}, 0},
		{"a reply, acknowledged", get, 1 | flagAck, stubKernel{replies: [][]byte{{1}}}, []uint16{get, messageError}, 0},
		{"a dump", get, 1 | flagDump, stubKernel{replies: [][]byte{{1}, {2}}}, []uint16{get, get, messageDone}, 0},
		{"a refusal", get, 1, stubKernel{err: syscall.ENODEV}, []uint16{messageError}, -int32(syscall.ENODEV)},
		{"another client", 2 << 10, 1, stubKernel{}, []uint16{messageError}, -int32(syscall.EINVAL)},
	} {
		c.k.got = new([]netlinkrdma.Request)
		got := answerDatagram(c.k, 99, datagram(c.typ, c.flags, nil))
		if !slices.Equal(types(t, got), c.want) {
			t.Errorf("%s: %v, want %v", c.what, types(t, got), c.want)
			continue
		}
		if last := got[len(got)-1]; binary.NativeEndian.Uint16(last[4:]) == messageError {
			if errno := int32(binary.NativeEndian.Uint32(last[16:])); errno != c.errno {
				t.Errorf("%s: errno %d, want %d", c.what, errno, c.errno)
			}
		}
	}
}

func TestAttributes(t *testing.T) {
	b := attribute(attribute(nil, 1, []byte{1, 2, 3}), 0x8002, []byte{4, 5, 6, 7})
	got := attributes(b)
	if len(got) != 2 || got[0].Type != 1 || string(got[0].Value) != "\x01\x02\x03" || got[1].Type != 2 || len(got[1].Value) != 4 {
		t.Errorf("%+v", got)
	}
}

func FuzzAnswerDatagram(f *testing.F) {
	f.Add(datagram(nldev|abi.RDMA_NLDEV_CMD_GET, 1, attribute(nil, 1, []byte{1, 0, 0, 0})))
	f.Add(append(datagram(3, 0, []byte{1}), 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, b []byte) {
		k := stubKernel{replies: [][]byte{{1}}, got: new([]netlinkrdma.Request)}
		for _, m := range answerDatagram(k, 1, b) {
			if int(binary.NativeEndian.Uint32(m)) != len(m) {
				t.Errorf("%x", m)
			}
		}
	})
}
