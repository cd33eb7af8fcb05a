package main

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

func mckeyFlags(f *flag.FlagSet, s *session) {
	f.StringVar(&s.group, "m", "", "`address` of the group")
	f.BoolVar(&s.sender, "s", false, "send")
	f.StringVar(&s.bind, "b", "", "own `address`")
	s.connectionsFlag(f, 1)
	s.messagesFlags(f)
	f.BoolVar(&s.sendOnly, "o", false, "join as a member that does not receive")
	f.BoolVar(&s.noMulticastLoopback, "l", false, "don't receive what this host sends")
}

// joinPause is how long mckey's sender waits for all to join.
const joinPause = 3 * time.Second

func runMckey(ctx context.Context, s *session) (err error) {
	group, err := parseAddr("m", s.group)
	if err != nil {
		return err
	}
	src, err := parseAddr("b", s.bind)
	if err != nil {
		return err
	}
	members := make([]*member, s.connections)
	defer func() {
		for _, m := range members {
			if m != nil {
				err = errors.Join(err, m.Close())
			}
		}
	}()
	if err := each(ctx, len(members), func(ctx context.Context, i int) (err error) {
		members[i], err = s.join(ctx, src, group)
		return err
	}); err != nil {
		return err
	}
	s.connected(members[0].Device().Info().Name, len(members))
	return s.pass(ctx, members)
}

// member is a queue pair in the group.
type member struct {
	*datagrams
	group *rdmacm.Group
}

func (s *session) join(ctx context.Context, src, group netip.Addr) (_ *member, err error) {
	e := s.newDatagrams()
	receives, flags := s.count, rdmacm.JoinFullMember
	if s.sender {
		receives = 0
	}
	if s.sendOnly {
		flags = rdmacm.JoinSendOnly
	}
	cfg := e.config(receives)
	if s.noMulticastLoopback {
		cfg.QP.Flags = verbs.QPBlockMulticastLoopback
	}
	if _, err := rdmacm.OpenUD(src, cfg); err != nil {
		return nil, err
	}
	m := &member{datagrams: e}
	if m.group, err = e.JoinMulticast(ctx, group, flags); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return m, nil
}

// pass sends all messages, or receives them.
func (s *session) pass(ctx context.Context, members []*member) error {
	if s.count == 0 {
		return nil
	}
	if s.sender {
		select {
		case <-time.After(joinPause):
		case <-ctx.Done():
		}
	}
	err := each(ctx, len(members), func(ctx context.Context, i int) error {
		if s.sender {
			return members[i].send(ctx, &members[i].group.Peer)
		}
		_, err := members[i].receive(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if n := len(members) * s.count; s.sender {
		s.transferred(n, 0)
	} else {
		s.transferred(0, n)
	}
	return nil
}
