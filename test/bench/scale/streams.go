//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/goverbs/goverbs/rsocket"
)

// smallStream has the smallest buffers of a byte stream, so that 10,000 fit into a guest. The C program
// uses the same sizes.
var smallStream = rsocket.Config{SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 16, RecvQueue: 16}

// serveStreams accepts connections and does nothing with them.
func serveStreams(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := (&rsocket.ListenConfig{Config: smallStream}).Listen(ctx, addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	go func() {
		<-ctx.Done()
		_ = l.Close() // ends Accept
	}()
	var streams []net.Conn
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return closeStreams(streams)
		}
		if err != nil {
			return err
		}
		streams = append(streams, c)
	}
}

func holdStreams(n int, addr string) error {
	d := rsocket.Dialer{Config: smallStream}
	var streams []net.Conn
	for i := range n + 1 {
		c, err := d.Dial(context.Background(), addr)
		if err != nil {
			return fmt.Errorf("stream %d: %w", i, err)
		}
		streams = append(streams, c)
		if i == 0 || i == n {
			if err := hold(i); err != nil {
				return err
			}
		}
	}
	return closeStreams(streams)
}

// closeStreams closes the streams and discards unsent data. It is no error if the peer closes them at the
// same time.
func closeStreams(streams []net.Conn) error {
	for _, c := range streams {
		s := c.(*rsocket.Conn)
		if err := errors.Join(s.SetLinger(0), s.Close()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return noneLeft()
}
