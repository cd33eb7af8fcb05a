package perftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/goverbs/goverbs/internal/giveup"
)

// ErrPeer matches every error but those of a canceled context, and of a peer that
// sends the reason for which it gives up.
var ErrPeer = errors.New("is the other end perftest 4.5 or rdmalink perf, and were both given the same options?")

// Patience is the time that a peer may take for a message before the test, in which
// it registers its memory, and ib_write_bw sleeps for a second. Messages during the
// test and after it have only the context's deadline.
const Patience = time.Minute

// Session is one test's exchange with the peer. Its methods are called in
// this order at both ends:
//
//	Greet                           describe the system
//	SyncCM, connect QPs, SyncCM     only with -R
//	Meet                            the addresses of all QPs
//	(without -R move the QPs to RTR and RTS)
//	Ready
//	Begin, run, End                 once a size; not when Test.ServerIdle at the server
//	Finish
//
// Each waits for the peer. A Session is for one goroutine. The caller owns the
// connection, and closes it after Finish or an error.
type Session struct {
	test  Test
	role  Role
	peer  string
	ch    channel
	own   []Endpoint
	their []Endpoint
}

// OverTCP returns a session without -R.
func OverTCP(conn net.Conn, role Role, test Test) *Session {
	return &Session{test: test, role: role, peer: conn.RemoteAddr().String(), ch: stream{Conn: conn, gid: !test.LIDOnly}}
}

// OverCM returns a session with -R; peer is the other end's name in errors.
func OverCM(m Messenger, peer string, role Role, test Test) *Session {
	return &Session{test: test, role: role, peer: peer, ch: packets{Messenger: m}}
}

// swap sends a message and receives the peer's of the same length. The client
// speaks first.
//
// C: ctx_xchg_data
func (s *Session) swap(ctx context.Context, what string, own []byte) ([]byte, error) {
	their := make([]byte, len(own))
	send := func() error { return s.explain(ctx, "send", what, s.ch.send(ctx, own)) }
	receive := func() error { return s.explain(ctx, "receive", what, s.ch.receive(ctx, their)) }
	first, second := send, receive
	if s.role == Server {
		first, second = receive, send
	}
	if err := first(); err != nil {
		return nil, err
	}
	return their, second()
}

// exchange swaps the address of a QP.
//
// C: ctx_hand_shake
func (s *Session) exchange(ctx context.Context, what string, own Endpoint) (Endpoint, error) {
	their, err := s.swap(ctx, what, s.ch.endpoint(own))
	if err != nil {
		return Endpoint{}, err
	}
	e, err := s.ch.parse(their)
	return e, s.explain(ctx, "receive", what, err)
}

// explain adds the peer and the step to an error.
func (s *Session) explain(ctx context.Context, doing, what string, err error) error {
	if err == nil {
		return nil
	}
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.Canceled):
		return fmt.Errorf("%v: %s %s (%s): %w", s.test, doing, what, s.peer, cause)
	case giveup.Is(err):
		return fmt.Errorf("%v: %s %s (%s): %w", s.test, doing, what, s.peer, err)
	case cause != nil && !errors.Is(err, cause):
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	return fmt.Errorf("%v: %s %s (%s): %w; %w", s.test, doing, what, s.peer, err, ErrPeer)
}
