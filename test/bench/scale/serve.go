//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// serve accepts connections. Each has a goroutine that waits for the peer.
func serve(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := (&rdmacm.ListenConfig{Backlog: 1024}).Listen(context.Background(), addr)
	if err != nil {
		return err
	}
	pd, free, err := sharedPD(l.Addr().Addr())
	if err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Println("ready")
	var open sync.WaitGroup
	for {
		r, err := l.Next(ctx)
		if err != nil {
			err = errors.Join(ignore(err, context.Canceled), l.Close())
			open.Wait()
			return errors.Join(err, free(), noneLeft())
		}
		open.Go(func() { must(func() error { return answer(r, pd) }) })
	}
}

func ignore(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// must runs a goroutine of a server, and ends the process if it fails.
func must(serve func() error) {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "scale: serve:", err)
		os.Exit(1)
	}
}

// answer serves a connection. It fails if the connection fails before the peer ends it. A peer may
// receive the byte and disconnect before its acknowledgement arrives here. The send is then flushed,
// which is no failure.
func answer(r *rdmacm.Request, pd *uverbs.PD) error {
	var e end
	ctx := context.Background()
	conn, err := r.Accept(ctx, &rdmacm.Config{Prepare: e.prepare, PD: pd})
	if err != nil {
		return err
	}
	for e.receive(ctx) == nil {
		if err := e.postReceive(); err != nil {
			return err
		}
		if e.sendByte(ctx) != nil {
			break // conn.Err returns the reason
		}
	}
	<-conn.Done()
	return errors.Join(ignore(conn.Err(), rdmacm.ErrDisconnected), conn.Close())
}

// noneLeft returns an error if queues are still mapped after everything has been closed.
func noneLeft() error {
	if n := regions.Live(); n > 0 {
		return fmt.Errorf("%d mappings are left", n)
	}
	return nil
}
