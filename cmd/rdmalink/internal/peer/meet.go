package peer

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// Meet finds over TCP the server at the host, or without one a client.
func Meet(ctx context.Context, host string, port int) (conn net.Conn, err error) {
	if host != "" {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	} else {
		conn, err = acceptOne(ctx, port)
	}
	return conn, Interrupted(err)
}

// acceptOne listens for one client only: others shall hear that nobody serves them.
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
