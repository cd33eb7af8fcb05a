package sandbox

import (
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// events is a descriptor with events that processes read by themselves: a pipe. It
// implements fakeverbs.Events.
type events struct {
	d      *device
	fd     int32 // the kernel's number
	theirs *os.File

	mu   sync.Mutex
	pipe *os.File
	sent map[uint64]uint32 // by the object's cookie
}

func (d *device) newEvents(files *files, fd int32) (*events, error) {
	own, theirs, err := files.pipe()
	if err != nil {
		return nil, err
	}
	e := &events{d: d, fd: fd, theirs: theirs, pipe: own, sent: make(map[uint64]uint32)}
	if err := files.add(theirs, e); err != nil {
		own.Close()
		theirs.Close()
		return nil, err
	}
	d.made = e
	return e, nil
}

func (e *events) node() node { return node{mode: unix.S_IFREG | 0o600} }

func (e *events) descriptor() *os.File { return e.pipe }

// close handles the end of the last reader.
func (e *events) close() {
	e.d.kernel.CloseChannel(e.fd)
}

// Send implements fakeverbs.Events, as all that follows.
func (e *events) Send(record []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := unix.Write(int(e.pipe.Fd()), record); err == nil {
		e.sent[binary.NativeEndian.Uint64(record)]++
	}
}

// Reported removes the unread events of an object, and returns the number of those that
// were read. Each record begins with the object's cookie.
func (e *events) Reported(cookie uint64, size int) (n uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n = e.sent[cookie]
	delete(e.sent, cookie)
	b := make([]byte, 1<<16)
	got, err := unix.Read(int(e.pipe.Fd()), b)
	if err != nil {
		return n
	}
	var others []byte
	for ; got >= size; b, got = b[size:], got-size {
		if binary.NativeEndian.Uint64(b) == cookie {
			n--
		} else {
			others = append(others, b[:size]...)
		}
	}
	if len(others) > 0 {
		_, _ = unix.Write(int(e.pipe.Fd()), others)
	}
	return n
}

func (e *events) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pipe.Close()
}
