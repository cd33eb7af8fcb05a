//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/bench/result"
)

func serveStream(_ context.Context, x exchange) error {
	l, err := rsocket.Listen(context.Background(), x.addr)
	if err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return err
	}
	b := make([]byte, x.size)
	for range x.rounds + warmUp {
		if err := errors.Join(x.receive(c, b), x.send(c, b)); err != nil {
			return err
		}
	}
	return errors.Join(closeAndWait(c), l.Close())
}

// warmUp is the number of rounds at the beginning that are not measured.
const warmUp = 2

func dialStream(ctx context.Context, x exchange) ([]result.Sample, error) {
	c, err := rsocket.Dial(ctx, x.addr)
	if err != nil {
		return nil, err
	}
	b := make([]byte, x.size)
	var start time.Time
	for i := range x.rounds + warmUp {
		if i == warmUp {
			start = time.Now()
		}
		if err := errors.Join(x.send(c, b), x.receive(c, b)); err != nil {
			return nil, err
		}
	}
	took := time.Since(start)
	return []result.Sample{{Measure: "transfer", Unit: "µs", Value: x.each(took)}}, closeAndWait(c)
}

// closeAndWait closes a connection and waits until all data has been sent. Over RDMA, unsent data is lost
// when the process exits.
func closeAndWait(c net.Conn) error {
	_ = c.(interface{ SetLinger(sec int) error }).SetLinger(10) // Close returns the error if it is closed
	return c.Close()
}

// each returns the time of one piece in one direction in µs, as rstream reports it.
func (x exchange) each(took time.Duration) float64 {
	return took.Seconds() * 1e6 / float64(2*x.rounds*x.count)
}

func (x exchange) send(c net.Conn, b []byte) error {
	for range x.count {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func (x exchange) receive(c net.Conn, b []byte) error {
	for range x.count {
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
	}
	return nil
}
