package perftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/goverbs/goverbs/internal/giveup"
)

// stream is a TCP connection: messages have no bounds, but C reads each with
// one read(2), so each is one write.
type stream struct {
	net.Conn
	gid bool
}

func (s stream) endpoint(e Endpoint) []byte       { return e.append(nil, s.gid) }
func (s stream) forPeer(string) channel           { return s }
func (s stream) parse(b []byte) (Endpoint, error) { return parseEndpoint(b, s.gid) }

// until makes calls on the connection fail when the context ends. Once stop has returned,
// nothing changes the deadline.
func (s stream) until(ctx context.Context) (stop func()) {
	_ = s.SetDeadline(time.Time{})
	over := make(chan struct{})
	halt := context.AfterFunc(ctx, func() {
		_ = s.SetDeadline(time.Unix(1, 0))
		close(over)
	})
	return func() {
		if !halt() {
			<-over
		}
	}
}

func (s stream) send(ctx context.Context, message []byte) error {
	defer s.until(ctx)()
	_, err := s.Write(message)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return cmp.Or(giveup.Unread(s), err)
}

func (s stream) receive(ctx context.Context, message []byte) error {
	defer s.until(ctx)()
	if len(message) < gidSize {
		return s.fill(message, 0, len(message))
	}
	return s.receiveGID(message)
}

// receiveGID receives an address with GID. If the first bytes are a whole address without
// GID, it returns an error instead of waiting for more.
func (s stream) receiveGID(message []byte) error {
	if err := s.fill(message, 0, plainSize); err != nil {
		return err
	}
	short := message[:plainSize]
	if _, err := parseEndpoint(short, false); err != nil {
		return s.fill(message, plainSize, gidSize)
	}
	_, err := parseEndpoint(short, true)
	return err
}

// fill receives the bytes of a message from one place up to another.
func (s stream) fill(message []byte, from, to int) error {
	n, err := io.ReadFull(s, message[from:to])
	n += from
	why := giveup.Complete(message[:n], s)
	switch {
	case why != nil:
		return why
	case err == nil:
		return nil
	case n > 0:
		return fmt.Errorf("got %.120q, which is %d of %d bytes: %w", message[:n], n, len(message), err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the peer closed the connection; its output should say why: %w", err)
	}
	return err
}

// last sends perftest's last word, which nobody reads. The peer may have closed the
// connection before it arrives.
func (s stream) last(ctx context.Context) { _ = s.send(ctx, []byte("done\x00")) }
