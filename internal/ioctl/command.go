package ioctl

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Command is a command from before the ioctl interface that is issued again and
// again, as it is: a doorbell. It goes by write(2), which costs the kernel
// two thirds of what an ioctl with its attributes does.
//
// The kernel refuses write(2) with EACCES to a process whose credentials are not
// those that the device was opened with: that one goes on by ioctl.
//
// A Command must not be issued by two goroutines at once.
//
// C: execute_cmd_write_no_uhw
type Command struct {
	file   File
	quick  Commander
	wire   []byte // as write(2) takes it: header and input
	driver uint32
	source interface{ request() *Request } // of slow
	slow   *Request                        // by ioctl, once it is known to be needed
}

// Commander is a File that takes commands by write(2) too, a header and what
// follows it. The error is a plain syscall.Errno.
type Commander interface {
	Command(wire []byte) error
}

// NewCommand makes a command. in, which is copied, begins with the address of
// the answer, unless the answer is struct{}.
func NewCommand[In, Answer any](f File, driver, command uint32, in In) *Command {
	m := &message[In, Answer]{in: in}
	quick, _ := f.(Commander)
	m.Command = Command{file: f, quick: quick, wire: m.bytes(command), driver: driver, source: m}
	return &m.Command
}

// Do issues the command and, but for the first time by ioctl, allocates nothing.
// The error is a syscall.Errno.
func (c *Command) Do() error {
	if c.quick != nil {
		if err := c.quick.Command(c.wire); err != syscall.EACCES {
			return err
		}
		c.quick = nil
	}
	if c.slow == nil {
		c.slow = c.source.request()
	}
	return c.slow.Do(c.file)
}

// message is a command with its answer behind.
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
