package cm

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var udaddy = &Program{
	Name: "udaddy", Args: "[OPTIONS]",
	Summary: "look up datagram services and exchange datagrams with each; the other end may be udaddy",
	text: `
Both ends need the same -c, -C and -S. The client sends its messages on each queue
pair; the server answers with as many. If datagrams are lost, either end waits
until it is interrupted. iWARP has no datagrams.

---
`,
	table: cli.Options(serverRow, bindRow, formatRow,
		cli.NewRow('P', "port-space", "PS", "udp (default); ipoib is InfiniBand's", setDatagramSpace),
		cli.NewRow('p', "space", "N", "the same as a number: 0x111 for udp", setDatagramSpaceNumber),
		connectionsRow("how many queue pairs (default 1)"), countRow, sizeRow, tosRow, jsonRow),
	defaults: options{port: 7174, portSpace: verbs.PortSpaceUDP, connections: 1, count: 10, size: 100, tos: -1},
	run:      runUdaddy,
}

func setDatagramSpace(o *options, value string) error {
	switch v := strings.ToLower(value); {
	case strings.HasPrefix(v, "ipoib"):
		return cli.UsageError{Text: "ipoib: this port space needs a subnet manager, which RoCE and iWARP don't have"}
	case !strings.HasPrefix(v, "udp"):
		return cli.Expected(value, "udp", "ipoib")
	}
	return nil
}

func setDatagramSpaceNumber(o *options, value string) error {
	n, err := strconv.ParseUint(value, 0, 32)
	switch {
	case err == nil && verbs.PortSpace(n) == verbs.PortSpaceUDP:
		return nil
	case err == nil && verbs.PortSpace(n) == verbs.PortSpaceIPoIB:
		return setDatagramSpace(o, "ipoib")
	}
	return cli.Expected(value, "0x111", "0x2")
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
	src, err := s.sourcePort(ctx)
	if err != nil {
		return err
	}
	dst, err := s.destination(ctx)
	if err != nil {
		return err
	}
	err = each(ctx, len(ends), func(ctx context.Context, i int) error {
		e := s.newDatagrams()
		d := rdmacm.Dialer{LocalAddr: src, TOS: uint8(max(s.tos, 0)), Config: *e.config(s.count)}
		if _, err := d.Dial(ctx, dst.String()); err != nil {
			return err
		}
		ends[i] = e
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.connected(ends[0].Device().Info().Name, len(ends)); err != nil {
		return err
	}
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
	start := time.Now()
	if err := each(ctx, len(ends), func(ctx context.Context, i int) error { return pass(ctx, ends[i]) }); err != nil {
		return err
	}
	n := len(ends) * s.count
	return s.transferred(start, n, n)
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
		err := peer.AcceptFirst(ctx, l.Next, func(ctx context.Context, r *rdmacm.Request) error {
			_, err := r.Accept(ctx, e.config(s.count))
			return err
		}, s.passedOver)
		if err != nil {
			return peer.Interrupted(err)
		}
		ends[i] = e
	}
	if err := s.connected(ends[0].Device().Info().Name, len(ends)); err != nil {
		return err
	}
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
