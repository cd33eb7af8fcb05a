package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// meet finds the other end: the server at the host, or without one a client.
func (p *pingpong) meet(ctx context.Context) (*pingpongTalk, error) {
	var conn net.Conn
	var err error
	if p.host != "" {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(p.host, strconv.Itoa(p.tcpPort)))
	} else {
		conn, err = acceptOne(ctx, p.tcpPort)
	}
	if err != nil {
		return nil, interrupted(err)
	}
	return talk(ctx, conn), nil
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
