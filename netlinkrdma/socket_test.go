package netlinkrdma

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
)

// wire is the kernel's end of a socket. Like Linux, it queues the answer to a request while it takes
// it, the parts of a dump one after another while it hands out datagrams, and refuses a second
// dump meanwhile. The n-th part of a dump has the numbers 2n and 2n+1.
type wire struct {
	parts   int // of a dump
	endless bool

	queue  [][]byte
	dump   uint32 // the sequence number of the dump that goes on, or 0
	left   int
	sent   int
	opened int
	closed int
}

func message(typ uint16, seq uint32, body ...byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(messageHeader+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, 0)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, body...)
}

func errno(e syscall.Errno) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(-int32(e))) }

func (w *wire) send(b []byte) error {
	w.sent++
	seq := binary.NativeEndian.Uint32(b[8:])
	switch flags := binary.NativeEndian.Uint16(b[6:]); {
	case flags&flagDump != flagDump:
		w.queue = append(w.queue, message(nldevType, seq, 1, 2, 3, 4), message(messageError, seq, errno(0)...))
	case w.dump != 0:
		w.queue = append(w.queue, message(messageError, seq, errno(syscall.EBUSY)...))
	default:
		w.dump, w.left = seq, w.parts
		w.goOn()
	}
	return nil
}

func (w *wire) goOn() {
	if w.left > 0 {
		n := byte(w.parts - w.left)
		w.left--
		w.queue = append(w.queue, append(message(nldevType, w.dump, 2*n, 0, 0, 0), message(nldevType, w.dump, 2*n+1, 0, 0, 0)...))
		return
	}
	if !w.endless {
		w.queue = append(w.queue, message(messageDone, w.dump, errno(0)...))
	}
	w.dump = 0
}

func (w *wire) receive(buf []byte, wait bool) (int, error) {
	if len(w.queue) == 0 {
		if wait {
			return 0, errors.New("nothing will arrive")
		}
		return 0, syscall.EAGAIN
	}
	n := copy(buf, w.queue[0])
	w.queue = w.queue[1:]
	if w.dump != 0 {
		w.goOn()
	}
	return n, nil
}

func (w *wire) close() error { w.closed++; return nil }

func (w *wire) socket() *Socket {
	return &Socket{dial: func() (link, error) { w.opened++; return w, nil }}
}

var (
	oneReply = Request{Op: abi.RDMA_NLDEV_CMD_SYS_GET}
	list     = Request{Op: abi.RDMA_NLDEV_CMD_GET, Dump: true}
)

// checkList reads a dump of w, and calls body with each number.
func checkList(t *testing.T, w *wire, s *Socket, body func(n int)) {
	t.Helper()
	n := 0
	err := s.Stream(list, func(reply []byte) bool {
		if len(reply) != 4 || int(reply[0]) != n {
			t.Errorf("% x where number %d was expected", reply, n)
		}
		body(n)
		n++
		return true
	})
	if err != nil || n != 2*w.parts {
		t.Errorf("%d objects of %d, %v", n, 2*w.parts, err)
	}
}

func checkOne(t *testing.T, s *Socket) {
	t.Helper()
	if replies, err := s.Execute(oneReply); err != nil || len(replies) != 1 || string(replies[0]) != "\x01\x02\x03\x04" {
		t.Errorf("%q, %v", replies, err)
	}
}

// TestSocketIsOpenedOnce checks that all requests of a Socket share one, and send one datagram each.
func TestSocketIsOpenedOnce(t *testing.T) {
	w := &wire{parts: 3}
	s := w.socket()
	for range 10 {
		checkOne(t, s)
		checkList(t, w, s, func(int) {})
	}
	if w.opened != 1 || w.sent != 20 || w.closed != 0 || len(w.queue) != 0 {
		t.Errorf("%d sockets opened, %d closed, %d datagrams sent, %d left", w.opened, w.closed, w.sent, len(w.queue))
	}
}

// TestSocketOpensAfterFailure checks that a request opens the socket if an earlier one could not.
func TestSocketOpensAfterFailure(t *testing.T) {
	w := new(wire)
	s := w.socket()
	open := s.dial
	s.dial = func() (link, error) { return nil, syscall.EPROTONOSUPPORT }
	if _, err := s.Execute(oneReply); err != syscall.EPROTONOSUPPORT {
		t.Error(err)
	}
	s.dial = open
	checkOne(t, s)
}

// TestSocketInsideDump checks requests and dumps in the body of a loop over a dump.
func TestSocketInsideDump(t *testing.T) {
	w := &wire{parts: 3}
	s := w.socket()
	checkList(t, w, s, func(n int) {
		checkOne(t, s)
		checkList(t, w, s, func(m int) {
			if m == 3 {
				checkOne(t, s)
			}
		})
	})
	checkOne(t, s)
}

// TestSocketAbandonedDump checks requests after a dump that was not read to its end, because the
// loop ended, or its goroutine.
func TestSocketAbandonedDump(t *testing.T) {
	w := &wire{parts: 3}
	s := w.socket()
	for name, leave := range map[string]func(){
		"break": func() {
			if err := s.Stream(list, func([]byte) bool { return false }); err != nil {
				t.Error(err)
			}
		},
		"panic": func() {
			defer func() { _ = recover() }()
			_ = s.Stream(list, func([]byte) bool { panic("in the loop") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			leave()
			checkOne(t, s)
			leave()
			checkList(t, w, s, func(int) {})
			leave()
			leave()
			checkOne(t, s)
			if len(w.queue) != 0 {
				t.Errorf("%d datagrams were left", len(w.queue))
			}
		})
	}
}

// TestSocketStaleAndMalformed checks that datagrams of other requests are skipped, and that a
// request works after one whose answer was malformed or had no end.
func TestSocketStaleAndMalformed(t *testing.T) {
	w := &wire{parts: 2}
	s := w.socket()
	w.queue = [][]byte{message(messageError, 7, errno(syscall.EIO)...)}
	checkOne(t, s)

	w.queue = [][]byte{{1, 2, 3}}
	if _, err := s.Execute(list); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	checkList(t, w, s, func(int) {})

	w.endless = true
	err := s.Stream(list, func([]byte) bool {
		checkOne(t, s)
		return true
	})
	if !errors.Is(err, ErrMalformed) {
		t.Error("without an end:", err)
	}
	checkOne(t, s)
}

// TestSocketConcurrent checks that goroutines get the answers to their own requests.
func TestSocketConcurrent(t *testing.T) {
	w := &wire{parts: 4}
	s := w.socket()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				checkOne(t, s)
				checkList(t, w, s, func(int) {})
			}
		})
	}
	all.Wait()
	if w.opened != 1 {
		t.Errorf("%d sockets", w.opened)
	}
}

// TestSocketClosed checks Close: before and after use, inside a dump, twice, and of nil.
func TestSocketClosed(t *testing.T) {
	w := &wire{parts: 3}
	for _, s := range []*Socket{w.socket(), w.socket()} {
		if w.closed == 0 {
			checkOne(t, s)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error("again:", err)
		}
		if _, err := (&Client{Kernel: s}).Devices(); !errors.Is(err, net.ErrClosed) {
			t.Error("after Close:", err)
		}
	}
	if w.opened != 1 || w.closed != 1 {
		t.Errorf("%d opened, %d closed", w.opened, w.closed)
	}
	s := w.socket()
	if err := s.Stream(list, func([]byte) bool { s.Close(); return true }); !errors.Is(err, net.ErrClosed) {
		t.Error("inside a dump:", err)
	}
	if err := (*Socket)(nil).Close(); !errors.Is(err, os.ErrInvalid) {
		t.Error("nil:", err)
	}
}
