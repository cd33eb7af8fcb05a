package ioctl

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Command is a command of the older write(2) interface that is issued many times without
// changes: a doorbell. write(2) costs the kernel two thirds of the time of an ioctl with
// its attributes.
//
// The kernel refuses write(2) with EACCES if the process's credentials have changed since
// it opened the device. From then on the Command uses ioctl.
//
// Only one goroutine at a time may issue a Command. GOVERBS_DEBUG does not print it.
//
// C: execute_cmd_write_no_uhw
type Command struct {
	file   File
	writer Commander // nil if only ioctl works
	wire   []byte    // header and input, for write(2)
	driver uint32
	source interface{ request() *Request } // creates ioctl
	ioctl  *Request                        // nil until it is needed
}

// Commander is an optional interface of a File that supports commands by write(2). The error
// is a plain syscall.Errno.
type Commander interface {
	// Command issues a command: a header and its input.
	Command(wire []byte) error
}

// NewCommand creates a command with a copy of in. Unless Answer is struct{}, the first field
// of in is the address of the answer, which NewCommand sets.
func NewCommand[In, Answer any](f File, driver, command uint32, in In) *Command {
	m := &message[In, Answer]{in: in}
	writer, _ := f.(Commander)
	m.Command = Command{file: f, writer: writer, wire: m.bytes(command), driver: driver, source: m}
	return &m.Command
}

// Do issues the command. It allocates only when it uses ioctl for the first time. The error
// is a syscall.Errno.
func (c *Command) Do() error {
	if c.writer != nil {
		if err := c.writer.Command(c.wire); err != syscall.EACCES {
			return err
		}
		c.writer = nil
	}
	if c.ioctl == nil {
		c.ioctl = c.source.request()
		c.ioctl.finish()
	}
	return c.ioctl.issue(c.file)
}

// message is a command and its answer, in one block of memory.
type message[In, Answer any] struct {
	Command
	header abi.IbUverbsCmdHdr
	in     In
	answer Answer
}

func (m *message[In, Answer]) request() *Request {
	r := Write(m.driver, m.header.Command, &m.in)
	m.answerTo(r)
	return r
}
