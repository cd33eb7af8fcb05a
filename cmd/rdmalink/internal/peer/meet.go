package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
)

// Meet connects over TCP to the server at host. If host is empty, it waits for a client.
func Meet(ctx context.Context, host string, port int) (conn net.Conn, err error) {
	if host != "" {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	} else {
		conn, err = acceptOne(ctx, port)
	}
	return conn, Interrupted(err)
}

// acceptOne listens for a single client. Others get an error instead of waiting.
func acceptOne(ctx context.Context, port int) (net.Conn, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	conn, err := l.Accept()
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return conn, err
}

// HandshakeLimit is the time for a client to connect. A request of RoCE is a single datagram
// that anybody can send; without a limit the server would wait for the rest forever.
const HandshakeLimit = 10 * time.Second

// AcceptFirst accepts the first client whose handshake completes. It calls note for each
// client whose handshake failed, and continues: a stranger must not end a server that waits
// for its peer.
func AcceptFirst[R any](ctx context.Context, next func(context.Context) (R, error), accept func(context.Context, R) error, note func(error)) error {
	for {
		request, err := next(ctx)
		if err == nil {
			limited, cancel := context.WithTimeout(ctx, HandshakeLimit)
			err = accept(limited, request)
			cancel()
			if err == nil || !peersFault(err) {
				return err
			}
		}
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return err
		}
		note(err)
	}
}

// peersFault reports whether the peer caused the failure of a handshake. The kernel returns
// EINVAL and ENOTCONN for a peer that has left.
func peersFault(err error) bool {
	for _, cause := range []error{rdmacm.ErrDisconnected, context.DeadlineExceeded, syscall.ETIMEDOUT, syscall.ECONNRESET, syscall.ECONNREFUSED,
		syscall.ECONNABORTED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENOTCONN, syscall.EINVAL} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
