//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/signal"
	"syscall"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// lowServer has a goroutine for events, one that accepts and one that frees. cmtime's server has threads
// for the same.
type lowServer struct {
	channel *rdmacm.EventChannel
	pairs   lowPairs
	asked   chan *rdmacm.ID
	over    chan *rdmacm.ID
	made    chan accepted
}

type accepted struct {
	id *rdmacm.ID
	qp *uverbs.QP
}

// lowQueue is the number of connections that may wait for each goroutine.
const lowQueue = 1 << 16

func lowServe(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	addr, err := address(text)
	if err != nil {
		return err
	}
	s := &lowServer{asked: make(chan *rdmacm.ID, lowQueue), over: make(chan *rdmacm.ID, lowQueue),
		made: make(chan accepted, lowQueue)}
	if s.channel, err = rdmacm.NewEventChannel(); err != nil {
		return err
	}
	listener, err := s.listen(addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	freed := make(chan struct{})
	go must(s.accept)
	go func() { defer close(freed); must(s.free) }()
	if err := s.events(ctx); err != nil {
		return err
	}
	close(s.over)
	<-freed
	return errors.Join(listener.Destroy(), s.pairs.close(), s.channel.Close(), noneLeft())
}

func (s *lowServer) listen(addr netip.AddrPort) (*rdmacm.ID, error) {
	id, err := s.channel.NewID(verbs.PortSpaceTCP, 0)
	if err != nil {
		return nil, err
	}
	return id, errors.Join(id.Bind(addr), id.Listen(0))
}

// events handles events until ctx ends or a call fails.
func (s *lowServer) events(ctx context.Context) error {
	for {
		ev, err := s.channel.Get(ctx)
		if err != nil {
			return ignore(err, context.Canceled)
		}
		switch ev.Type {
		case rdmacm.EventConnectRequest:
			s.asked <- ev.ID
		case rdmacm.EventDisconnected:
			s.over <- ev.ID
		case rdmacm.EventEstablished, rdmacm.EventTimewaitExit:
		default:
			return fmt.Errorf("%v: %w", ev.Type, ev.Err)
		}
		ev.Ack()
	}
}

func (s *lowServer) accept() error {
	for id := range s.asked {
		qp, err := s.pairs.attach(id)
		if err == nil {
			err = id.Accept(nil)
		}
		if err != nil {
			return err
		}
		s.made <- accepted{id, qp}
	}
	return nil
}

// free destroys the queue pairs of IDs whose connections have ended.
func (s *lowServer) free() error {
	pairs := make(map[*rdmacm.ID]*uverbs.QP)
	for id := range s.over {
		for pairs[id] == nil {
			a := <-s.made
			pairs[a.id] = a.qp
		}
		_ = id.Disconnect() // over iWARP the connection has already ended
		if err := errors.Join(release(id, pairs[id]), id.Destroy()); err != nil {
			return err
		}
		delete(pairs, id)
	}
	return nil
}
