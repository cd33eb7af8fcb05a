package main

import (
	"context"
	"errors"
	"flag"
	"net/netip"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func udaddyFlags(f *flag.FlagSet, s *session) {
	s.endsFlags(f)
	s.port = 7174
	s.connectionsFlag(f, 1)
	s.messagesFlags(f)
	s.tosFlag(f)
}

// newDatagrams returns a datagrams for one connection. Dial or Accept creates its queue pair.
func (s *session) newDatagrams() *datagrams { return &datagrams{count: s.count, size: s.size} }

func runUdaddy(ctx context.Context, s *session) error {
	ends := make([]*datagrams, s.connections)
	side := s.lookUp
	if s.server == "" {
		side = s.beFound
	}
	err := side(ctx, ends)
	for _, e := range ends {
		if e != nil && e.Conn != nil {
			err = errors.Join(err, e.Close())
		}
	}
	return err
}

// lookUp runs the client: it resolves the server's queue pairs and exchanges messages.
func (s *session) lookUp(ctx context.Context, ends []*datagrams) error {
	src, dst, err := s.addrs()
	if err != nil {
		return err
	}
	err = each(ctx, len(ends), func(ctx context.Context, i int) error {
		e := s.newDatagrams()
		d := rdmacm.Dialer{Config: *e.config(s.count)}
		if src.IsValid() {
			d.LocalAddr = netip.AddrPortFrom(src, 0)
		}
		d.TOS = uint8(max(s.tos, 0))
		if _, err := d.Dial(ctx, dst.String()); err != nil {
			return err
		}
		ends[i] = e
		return nil
	})
	if err != nil {
		return err
	}
	s.connected(ends[0].Device().Info().Name, len(ends))
	return s.exchange(ctx, ends, func(ctx context.Context, e *datagrams) error {
		if err := e.send(ctx, e.Peer()); err != nil {
			return err
		}
		_, err := e.receive(ctx)
		return err
	})
}

// exchange exchanges all messages, if there are any.
func (s *session) exchange(ctx context.Context, ends []*datagrams, pass func(context.Context, *datagrams) error) error {
	if s.count == 0 {
		return nil
	}
	if err := each(ctx, len(ends), func(ctx context.Context, i int) error { return pass(ctx, ends[i]) }); err != nil {
		return err
	}
	s.transferred(len(ends)*s.count, len(ends)*s.count)
	return nil
}

// beFound runs the server: it accepts the client's requests and answers its messages.
func (s *session) beFound(ctx context.Context, ends []*datagrams) error {
	l, err := (&rdmacm.ListenConfig{Config: rdmacm.Config{QP: uverbs.QPOptions{Type: verbs.QPTypeUD}}}).Listen(ctx, s.listenAddress())
	if err != nil {
		return err
	}
	defer l.Close()
	for i := range ends {
		e := s.newDatagrams()
		r, err := l.Next(ctx)
		if err != nil {
			return err
		}
		if _, err := r.Accept(ctx, e.config(s.count)); err != nil {
			return err
		}
		ends[i] = e
	}
	s.connected(ends[0].Device().Info().Name, len(ends))
	return s.exchange(ctx, ends, answer)
}

// answer waits for all messages, then sends as many to the sender of the first.
func answer(ctx context.Context, e *datagrams) error {
	first, err := e.receive(ctx)
	if err != nil {
		return err
	}
	ah, err := e.PD().AHFromWC(e.DevicePort(), &first, e.mr.Bytes()[:uverbs.GRHSize])
	if err != nil {
		return err
	}
	e.Own(ah)
	return e.send(ctx, &rdmacm.Peer{AH: ah, QPN: first.Imm, QKey: rdmacm.UDPQKey})
}
