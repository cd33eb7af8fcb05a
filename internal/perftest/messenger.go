package perftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// MaxMessage is in bytes the longest message over a QP, and how long the
// receive must be that is posted for one.
const MaxMessage = structSize

// Messenger carries the messages of a session with -R: each is one SEND on an
// RC queue pair of its own, which rdma_cm connected before those of the test.
// The ends speak in turn, so one receive is enough; it must be posted before
// the connection is asked for or accepted, and the next one before Receive
// returns, because the peer may answer at once.
type Messenger interface {
	// Send returns when the SEND has completed.
	Send(ctx context.Context, message []byte) error
	// Receive waits for a message, copies it to the front of buf, which has
	// MaxMessage bytes, and returns its length.
	Receive(ctx context.Context, buf []byte) (int, error)
}

// channel carries messages whose length both ends know.
type channel interface {
	send(ctx context.Context, message []byte) error
	receive(ctx context.Context, message []byte) error
	// last is what an end says that goes away.
	last(ctx context.Context)
	endpoint(e Endpoint) []byte
	parse(b []byte) (Endpoint, error)
	size() int // of an endpoint
}

// stream is a TCP connection: messages have no bounds, but C reads each with
// one read(2), so each is one write.
type stream struct {
	net.Conn
	gid bool
}

func (s stream) endpoint(e Endpoint) []byte       { return e.append(nil, s.gid) }
func (s stream) parse(b []byte) (Endpoint, error) { return parseEndpoint(b, s.gid) }

func (s stream) size() int {
	if s.gid {
		return gidSize
	}
	return plainSize
}

// until has the connection give up when the context ends.
func (s stream) until(ctx context.Context) (stop func()) {
	_ = s.SetDeadline(time.Time{})
	halt := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	return func() { halt() }
}

func (s stream) send(ctx context.Context, message []byte) error {
	defer s.until(ctx)()
	_, err := s.Write(message)
	return err
}

func (s stream) receive(ctx context.Context, message []byte) error {
	defer s.until(ctx)()
	n, err := io.ReadFull(s, message)
	switch {
	case err == nil:
		return nil
	case n > 0:
		return fmt.Errorf("got %.120q, which is %d of %d bytes: %w", message[:n], n, len(message), err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the peer closed the connection, and should have said there why: %w", err)
	}
	return err
}

// last: perftest sends a word that nobody reads, and may have closed the
// connection before ours gets there.
func (s stream) last(ctx context.Context) { _ = s.send(ctx, []byte("done\x00")) }

// packets are the messages of a Messenger.
type packets struct{ Messenger }

func (p packets) endpoint(e Endpoint) []byte       { return e.appendStruct(nil) }
func (p packets) parse(b []byte) (Endpoint, error) { return parseStruct(b) }
func (p packets) size() int                        { return structSize }
func (p packets) last(context.Context)             {}

func (p packets) send(ctx context.Context, message []byte) error { return p.Send(ctx, message) }

func (p packets) receive(ctx context.Context, message []byte) error {
	buf := make([]byte, MaxMessage)
	n, err := p.Receive(ctx, buf)
	switch {
	case err != nil:
		return err
	case n != len(message):
		return fmt.Errorf("got a message of %d bytes, want %d", n, len(message))
	}
	copy(message, buf)
	return nil
}
