package cp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"time"
)

// The commands of rcopy. A reply repeats the command and has the upper bit set.
const (
	cmdOpen   = 1 // data is the mode; the path follows, with zeros up to a multiple of 8
	cmdClose  = 2
	cmdWrite  = 3 // the size follows, of 8 bytes, and then the content
	cmdAnswer = 0x80
)

// mostName is as much as a message has room for.
const mostName = 4096

// header begins each message. It is in the machine's byte order, as C leaves it.
type header struct {
	Version, Command uint8
	Length           uint16 // of the message, without the content
	Data             uint32 // in an answer an errno
	ID               uint64 // the reply has the same
}

const headerSize = 16

// timedConn is a connection to a peer that has to take or bring something in time: whole
// messages, and pieces of a file. Time that passes between calls, at the disk for instance,
// does not count.
type timedConn struct {
	net.Conn
	limit time.Duration // 0: none
	left  time.Duration // remaining part of limit, for the current bytes
	todo  int           // bytes until limit begins anew
}

func (c *command) timed(conn net.Conn) *timedConn {
	return &timedConn{Conn: conn, limit: time.Duration(c.limit) * time.Second}
}

// message starts the limit for a message.
func (t *timedConn) message() { t.left, t.todo = t.limit, math.MaxInt }

// content starts the limit for the next piece of a file.
func (t *timedConn) content() { t.left, t.todo = t.limit, piece }

func (t *timedConn) Read(b []byte) (int, error) { return t.limited(b, t.Conn.Read) }

func (t *timedConn) Write(b []byte) (int, error) { return t.limited(b, t.Conn.Write) }

func (t *timedConn) limited(b []byte, pass func([]byte) (int, error)) (int, error) {
	if t.limit == 0 {
		return pass(b)
	}
	start := time.Now()
	_ = t.SetDeadline(start.Add(t.left)) // a closed connection fails below
	n, err := pass(b)
	t.left -= time.Since(start)
	if t.todo -= n; t.todo <= 0 {
		t.content()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("nothing, or too little, passed in %v: %w", t.limit, err)
	}
	return n, err
}

// send sends a message, whose body follows the header.
func send(w io.Writer, h header, body []byte) error {
	h.Length = uint16(headerSize + len(body))
	b, err := binary.Append(make([]byte, 0, h.Length), binary.NativeEndian, h)
	if err == nil {
		_, err = w.Write(append(b, body...))
	}
	return err
}

// receive receives a message. It returns io.EOF at the end of the connection.
func receive(r io.Reader) (h header, body []byte, err error) {
	var b [headerSize]byte
	if _, err = io.ReadFull(r, b[:]); err != nil {
		return h, nil, err
	}
	if _, err = binary.Decode(b[:], binary.NativeEndian, &h); err != nil {
		return h, nil, err
	}
	if h.Version != 0 || h.Length < headerSize {
		return h, nil, fmt.Errorf("not an rcopy message: version %d, length %d", h.Version, h.Length)
	}
	body = make([]byte, h.Length-headerSize)
	if _, err = io.ReadFull(r, body); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return h, body, err
}

// answered waits for the answer to a command.
func answered(r io.Reader, command uint8) error {
	h, _, err := receive(r)
	switch {
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case h.Command != command|cmdAnswer:
		return fmt.Errorf("an answer to command %#x instead of one to %#x", h.Command, command)
	case h.Data != 0:
		return syscall.Errno(h.Data)
	}
	return nil
}
