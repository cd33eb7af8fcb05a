package sandbox

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// TestUnreadAnswers checks that a process that reads no answers fills a buffer and no more, learns that some were lost,
// and can read a list that is longer than the buffer.
func TestUnreadAnswers(t *testing.T) {
	f, err := newFiles()
	if err != nil {
		t.Fatal(err)
	}
	defer f.remove()
	own, theirs, err := f.pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	const list = 2000
	k := stubKernel{replies: make([][]byte, list), got: new([]netlinkrdma.Request)}
	s := &socket{m: &machine{netlink: k}, port: 1, pipe: own}
	defer s.close()
	c := &call{process: processOf(t, unix.Getpid())}
	r, err := mmap.Anonymous(unix.Getpagesize(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	receive := func() result { return s.receive(c, message{base: r.Addr(), room: 64, flags: unix.MSG_DONTWAIT}) }
	const get = nldev | abi.RDMA_NLDEV_CMD_GET
	for range 3 { // the second and third wait for the first
		s.take(c, datagram(get, 1|flagDump, nil))
	}
	if s.size > receiveBuffer+list || len(s.datagrams) > receiveBuffer/truesize+1 {
		t.Errorf("%d answers wait, with %d bytes", len(s.datagrams), s.size)
	}
	lost, got := 0, 0
	for {
		r := receive()
		if r.errno == syscall.EAGAIN {
			break
		}
		if r.errno == syscall.ENOBUFS {
			lost++
		} else {
			got++
		}
	}
	if lost != 1 || got != list+1 || s.size != 0 {
		t.Errorf("received %d answers, %d times told of lost ones, %d bytes left", got, lost, s.size)
	}
	for range 1000 {
		s.take(c, datagram(2<<10, 1, nil))
	}
	if len(s.datagrams) > receiveBuffer/truesize+1 {
		t.Errorf("%d errors wait", len(s.datagrams))
	}
	if r := receive(); r.errno != syscall.ENOBUFS {
		t.Error(r)
	}
	if r := s.take(c, make([]byte, receiveBuffer+1)); r.errno != syscall.EMSGSIZE {
		t.Error(r)
	}
}
