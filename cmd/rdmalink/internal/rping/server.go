package rping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// serve runs the server.
func (r *session) serve(ctx context.Context) error {
	l, err := r.listen(ctx)
	if err != nil {
		return err
	}
	return r.serveFrom(ctx, l)
}

func (r *session) listen(ctx context.Context) (listener, error) {
	if r.ownQP {
		return listenOwn(ctx, r.listenAddress())
	}
	return listen(ctx, r.listenAddress())
}

// serveFrom serves the clients of a listener, and closes it.
func (r *session) serveFrom(ctx context.Context, l listener) error {
	defer l.Close()
	if r.persistent {
		return r.serveAll(ctx, l)
	}
	var end *end
	err := peer.AcceptFirst(ctx, l.Next, func(ctx context.Context, request *request) error {
		end = r.newEnd(false, MaxSize)
		return request.accept(ctx, end)
	}, func(err error) { r.Note("%s", cli.PlainLine(err)) })
	if err != nil {
		return peer.Interrupted(err)
	}
	if err := l.Close(); err != nil { // other clients get an error instead of waiting
		return errors.Join(err, end.conn.Close())
	}
	return r.attend(ctx, end)
}

// listenAddress returns an address without a host to mean both address families.
func (r *session) listenAddress() string {
	if r.addr == "" {
		return fmt.Sprintf(":%d", r.port)
	}
	return r.address()
}

// mostClients is how many clients are served at a time. Others are refused, and so are those of an address that has its
// share of the places.
const mostClients = 256

// serveAll serves clients concurrently. The failure of a client does not affect the
// others, unlike one of the listener.
func (r *session) serveAll(ctx context.Context, l listener) error {
	ctx, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop() // a client must not delay the end of a server whose listener has failed
	places := cli.NewPlaces(mostClients)
	for {
		request, err := l.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed): // the error contains the reason
			return err
		case err != nil:
			r.Note("%s", cli.PlainLine(err))
			continue
		}
		from := request.from.Addr()
		if err := places.Take(from); err != nil {
			r.Note("client %s: refused: %v", request.from, err)
			_ = request.reject() // a client that has left needs no refusal
			continue
		}
		clients.Go(func() {
			defer places.Leave(from)
			if err := r.serveOne(ctx, request); err != nil && ctx.Err() == nil {
				r.Note("client %s: %s", request.from, cli.PlainLine(err))
			}
		})
	}
}

func (r *session) serveOne(ctx context.Context, request *request) error {
	end := r.newEnd(false, MaxSize)
	limited, cancel := context.WithTimeout(ctx, peer.HandshakeLimit)
	defer cancel()
	if err := request.accept(limited, end); err != nil {
		return peer.Interrupted(err)
	}
	return r.attend(ctx, end)
}

// attend serves a client that has connected.
func (r *session) attend(ctx context.Context, end *end) error {
	report := r.begin("server", end)
	err := r.answers(ctx, end, report)
	return report.finish(err, end.conn.Close())
}

// answers serves one client until it disconnects.
func (r *session) answers(ctx context.Context, end *end, report *report) error {
	ctx, leave := end.whileConnected(ctx)
	defer leave()
	for n := 0; ; n++ {
		source, err := end.recv(ctx)
		switch {
		case errors.Is(err, rdmacm.ErrDisconnected) && n < r.count:
			return fmt.Errorf("the client disconnected after %d of %d pings", n, r.count)
		case errors.Is(err, rdmacm.ErrDisconnected):
			return nil
		case err == nil:
			err = r.answer(ctx, end, source)
		}
		if err != nil {
			return fmt.Errorf("ping %d: %w", n, peer.Interrupted(err))
		}
		report.add(int(source.size))
	}
}

// answer reads the client's data and writes it back. The messages to the client
// report nothing unless they fail, which the operation after them brings up.
func (r *session) answer(ctx context.Context, end *end, source info) error {
	if source.size > MaxSize {
		return fmt.Errorf("the client offers %d bytes, the limit is %d", source.size, MaxSize)
	}
	size := int(source.size)
	if err := end.move(ctx, verbs.OpRDMARead, source, size); err != nil {
		return fmt.Errorf("RDMA READ of %d bytes: %w", size, err)
	}
	data := end.data.Bytes()[:size]
	if err := r.show("server ping data", data); err != nil {
		return err
	}
	if err := end.send(info{}, 0); err != nil {
		return err
	}
	sink, err := end.recv(ctx)
	if err != nil {
		return fmt.Errorf("waiting for the address to write to: %w", err)
	}
	size = echoSize(data)
	if err := end.move(ctx, verbs.OpRDMAWrite, sink, size); err != nil {
		return fmt.Errorf("RDMA WRITE of %d bytes: %w", size, err)
	}
	return end.send(info{}, 0)
}
