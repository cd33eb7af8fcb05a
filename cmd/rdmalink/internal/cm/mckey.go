package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

var mckey = &Program{
	Name: "mckey", Args: "-m GROUP [OPTIONS]",
	Summary: "send to a multicast group or receive from it; the other members may be mckey",
	text: `
Without -s, mckey receives. The sender waits for 3 seconds after it has joined, like C's
mckey: start receivers before it, or together with it. If datagrams are lost, a
receiver waits until it is interrupted. iWARP has no multicast, and RoCE v2 has none
over IPv6.

---
`,
	table: cli.Options(
		cli.NewRow('m', "group", "ADDR", "the group's address, 239.1.2.3 for instance", func(o *options, v string) error { o.group = v; return nil }),
		cli.NewRow('M', "gid", "GID", "is InfiniBand's", func(*options, string) error {
			return cli.UsageError{Text: "-M: group GIDs are for InfiniBand only; on RoCE give an IP address with -m"}
		}),
		cli.NewRow('s', "sender", "", "send", cli.Flag(func(o *options) *bool { return &o.sender })),
		cli.NewRow('b', "bind", "ADDR", "own address (default: the one that the routing table has for the group)", bindRow.Set),
		connectionsRow("how many queue pairs (default 1)"), countRow, sizeRow,
		cli.NewRow('p', "space", "N", "0x111 for udp (default)", setDatagramSpaceNumber),
		cli.NewRow('o', "send-only", "", "join as a member that does not receive", cli.Flag(func(o *options) *bool { return &o.sendOnly })),
		cli.NewRow('l', "no-loopback", "", "don't receive what this host sends, where the device can", cli.Flag(func(o *options) *bool { return &o.noLoopback })),
		jsonRow),
	defaults: options{connections: 1, count: 10, size: 100},
	check: func(o *options) error {
		if o.group == "" {
			return cli.UsageError{Text: "the group's address is missing: -m ADDR"}
		}
		return nil
	},
	run: runMckey,
}

// joinPause is how long mckey's sender waits for all to join.
const joinPause = 3 * time.Second

func runMckey(ctx context.Context, s *session) (err error) {
	if s.report.Role = "receiver"; s.sender {
		s.report.Role = "sender"
	}
	group, err := s.resolve(ctx, "-m", s.group)
	if err != nil {
		return err
	}
	src, err := s.groupSource(ctx, group)
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
	if err := s.connected(members[0].Device().Info().Name, len(members)); err != nil {
		return err
	}
	return s.pass(ctx, members)
}

// groupSource returns the own address to join from.
func (s *session) groupSource(ctx context.Context, group netip.Addr) (netip.Addr, error) {
	if src, err := s.source(ctx); src.IsValid() || err != nil {
		return src, err
	}
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, 1))) // which sends nothing
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%w (-b ADDR says where to join from)", err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
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
	if s.noLoopback {
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
	start := time.Now()
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
		return s.transferred(start, n, 0)
	} else {
		return s.transferred(start, 0, n)
	}
}
