// Package perfcmd has the command line and the reports of rdmalink perf, which are
// those of perftest. Package perf does the measurement.
package perfcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
	"github.com/goverbs/goverbs/internal/giveup"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Run runs the program of the kind.
func (k Kind) Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(k, args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	p := &session{Output: out, options: o, kind: k}
	return p.run(ctx)
}

// session is one run of the command.
type session struct {
	cli.Output
	options
	kind Kind
}

func (p *session) run(ctx context.Context) error {
	report := p.newReport()
	go report.progress.show()
	run := p.byHand
	if p.CM {
		run = p.byCM
	}
	err := run(ctx, report)
	report.progress.end()
	return report.finish(peer.Interrupted(err))
}

// byHand runs a test whose ends exchange their addresses over TCP.
func (p *session) byHand(ctx context.Context, report *report) (err error) {
	dev, err := peer.OpenDevice(p.device, p.suits)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	conn, err := peer.Meet(ctx, p.host, p.tcpPort)
	if err != nil {
		return err
	}
	defer conn.Close()
	return p.over(ctx, conn, dev, report)
}

// over runs the test with the peer of a connection.
func (p *session) over(ctx context.Context, conn net.Conn, dev *uverbs.Device, report *report) error {
	gid, err := p.chooseGID(dev, conn)
	if err != nil {
		giveup.Say(conn, err)
		return err
	}
	return perf.Run(ctx, p.Options, perf.OverTCP(conn, dev, gid), report)
}

// suits closes a device that can't do this.
func (p *session) suits(dev *uverbs.Device) (*uverbs.Device, error) {
	err := p.misfit(dev)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return dev, nil
}

func (p *session) misfit(dev *uverbs.Device) error {
	name := dev.Info().Name
	if dev.Info().NodeType == verbs.NodeRNIC {
		return fmt.Errorf("%s: %w: give -R, and as HOST the server's address there", name, peer.ErrOnlyCM)
	}
	cq, err := dev.CreateCQ(1, nil) // fails if there is no provider
	if err != nil {
		return err
	}
	return errors.Join(perf.Fits(p.Options, dev), cq.Close())
}

// chooseGID finds none on InfiniBand unless one is asked for: it has its LID. EFA has none.
func (p *session) chooseGID(dev *uverbs.Device, conn net.Conn) (*verbs.GIDEntry, error) {
	port, err := dev.QueryPort(p.ibPort)
	if err != nil {
		return nil, err
	}
	if p.gid < 0 && !port.GRHRequired && port.LID != 0 {
		return nil, nil
	}
	return peer.SourceGID(dev, p.ibPort, "-x", p.gid, peer.AddrOf(conn.LocalAddr()), peer.AddrOf(conn.RemoteAddr()))
}

// byCM leaves finding the device, and the peer, to rdma_cm.
func (p *session) byCM(ctx context.Context, report *report) (err error) {
	path, err := p.meetOverCM(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, path.Close()) }()
	if name := path.Device(); p.device != "" && p.device != name {
		err := fmt.Errorf("-d %s: rdma_cm took %s; give as HOST an address of the server's %[1]s, and --source_ip here", p.device, name)
		path.Leave(err)
		return err
	}
	return perf.Run(ctx, p.Options, path, report)
}

func (p *session) meetOverCM(ctx context.Context) (*perf.CM, error) {
	port := strconv.Itoa(p.tcpPort)
	if p.host == "" {
		return perf.AcceptCM(ctx, net.JoinHostPort(p.source, port), p.Type, func(err error) { p.Note("%s", cli.PlainLine(err)) })
	}
	var source netip.AddrPort
	if p.source != "" {
		addr, err := netip.ParseAddr(p.source)
		if err != nil {
			return nil, cli.UsageError{Text: fmt.Sprintf("--source_ip: %v", err)}
		}
		source = netip.AddrPortFrom(addr, 0)
	}
	return perf.DialCM(ctx, net.JoinHostPort(p.host, port), source)
}
