// Package pingpong passes messages to and fro without a connection manager, as the
// ibv_*_pingpong programs do, which may be the other end. The ends exchange their addresses in the
// format of these programs, so the package connects queue pairs itself, and not by package oob.
package pingpong

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/verbs"
)

// Details returns the help text, with the options from the parser's table.
func (k *Kind) Details() string {
	var b strings.Builder
	b.WriteString(`
Without HOST, pingpong is the server of one client. With HOST, it is the client of the
server there. The two ends exchange their addresses over TCP, and then pass one message
back and forth.

`)
	b.WriteString(k.options().Help())
	b.WriteString(`
Without -g, a GID for RoCE v2 is used: that of the address that the TCP connection
uses, if the device has it, otherwise one of the same address family. C's programs need
-g on RoCE. C's -j (device memory) means JSON here; C's -t, -N, -O and -U are not
supported.

An interrupt ends either side. The exit code is 0 after all exchanges, 1 after a
failure, for example if -c finds wrong data, and 2 for an invalid command line.`)
	return b.String()
}

// Run runs the program of the kind.
func (k *Kind) Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(k, args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	p := &session{Output: out, kind: k, options: o}
	return p.run(ctx)
}

// session is one run of the command.
type session struct {
	cli.Output
	options
	kind *Kind
}

// run runs either end.
func (p *session) run(ctx context.Context) (err error) {
	e, err := p.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	g := p.newGame(e)
	if err := g.refill(); err != nil {
		return err
	}
	report := p.begin(e)
	err = p.course(ctx, g, report)
	return report.finish(err)
}

// course runs the exchange and the test after the objects have been created.
func (p *session) course(ctx context.Context, g *game, report *report) error {
	if err := p.introduce(ctx, g, report); err != nil {
		return err
	}
	if p.validate && p.host != "" {
		mark(g.message())
	}
	report.start()
	err := g.play(ctx)
	report.stop(min(g.sent, g.received))
	if err != nil {
		return err
	}
	if err := report.times(); err != nil || !p.validate {
		return err
	}
	return report.check(g.message())
}

// introduce connects the ends over TCP and exchanges their addresses. An end that
// fails sends the other end the reason.
func (p *session) introduce(ctx context.Context, g *game, report *report) error {
	t, err := p.meet(ctx)
	if err != nil {
		return err
	}
	if err := p.introduceOver(t, g, report); err != nil {
		t.leave(err)
		return err
	}
	return t.Close()
}

// introduceOver exchanges the addresses and connects the QPs. The client's address
// comes first, so that the server can choose a matching GID. The client connects
// its QPs before it reports that it is ready. C does it afterwards, so that a
// client that fails then leaves its server waiting.
func (p *session) introduceOver(t *exchange, g *game, report *report) (err error) {
	server := p.host == ""
	var remote []addr
	own := peer.AddrOf(t.LocalAddr())
	from := own
	if server {
		if remote, err = t.recvAddrs(p.qpCount, p.kind.records); err != nil {
			return err
		}
		from = remote[0].gid.Addr()
	}
	gid := &verbs.GIDEntry{} // InfiniBand has its LID
	if p.gid >= 0 || g.port.GRHRequired {
		if gid, err = peer.SourceGID(g.dev, p.ibPort, "-g", p.gid, own, from); err != nil {
			return err
		}
	}
	local := g.addrs(gid.GID)
	if err := report.local(local); err != nil {
		return err
	}
	if !server {
		if err := t.sendAddrs(local, p.kind.records); err != nil {
			return err
		}
		if remote, err = t.recvAddrs(p.qpCount, p.kind.records); err != nil {
			return err
		}
	}
	if err := report.remote(remote); err != nil {
		return err
	}
	if err := p.connect(g.end, local, remote, gid.Index); err != nil {
		return err
	}
	g.meetPeer(remote)
	if !server {
		return t.ready()
	}
	if err := t.sendAddrs(local, p.kind.records); err != nil {
		return err
	}
	return t.awaitReady()
}

// addrs returns the addresses of the QPs of this end.
func (e *end) addrs(gid verbs.GID) []addr {
	all := make([]addr, len(e.qps))
	for i, qp := range e.qps {
		all[i] = addr{lid: e.port.LID, qpn: qp.QPN(), psn: rand.Uint32N(1 << 24), gid: gid}
	}
	return all
}
