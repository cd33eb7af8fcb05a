package ioctl

import (
	"os"
	"syscall"
	"time"
)

// FileEvents is an [EventFile] on a descriptor.
type FileEvents struct {
	*os.File
	conn  syscall.RawConn
	poll  func(fd uintptr) // made once
	limit time.Duration    // of the Await under way
	came  bool             // what it found
}

// NewFileEvents makes one of a descriptor that does not block.
func NewFileEvents(f *os.File) (*FileEvents, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	e := &FileEvents{File: f, conn: conn}
	e.poll = func(fd uintptr) { e.came = readable(fd, e.limit) }
	return e, nil
}

// Await implements EventFile.
func (e *FileEvents) Await(limit time.Duration) bool {
	e.limit, e.came = limit, false
	return e.conn.Control(e.poll) == nil && e.came
}
