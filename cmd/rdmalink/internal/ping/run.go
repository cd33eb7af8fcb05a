// Package ping says whether a peer is reached over RDMA, and how soon it answers, in
// ping's words.
package ping

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/rping"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// Details returns the help text.
func Details() string {
	return `
The other end is a server of rdmalink rping or of librdmacm's rping:

  rdmalink rping -s -P

librdmacm's server accepts no ping larger than its own -S, 64 bytes by default.

A ping consists of a message with the address of a buffer, which the server reads
with RDMA READ, and a message with the address of a second buffer, to which the
server writes the data with RDMA WRITE. The server answers each message. The printed
time covers all of this. All pings use one connection. If it breaks, or a ping is not
answered in time, the ping is lost and the next one connects again.

` + table.Help() + `
If the name can't be resolved at the start, or nothing was answered yet and later pings
would fail for the same reason, such as no route, no RDMA device at the route, or a peer
that refuses the connection, ping fails. After an interrupt it prints
the summary. The exit code is 0 if a ping was answered, 1 if none was or if a ping came
back changed, 2 for an invalid command line.`
}

// Run runs the command.
func Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	source, err := rping.Source(ctx, o.source, o.host)
	if err != nil {
		return peer.Interrupted(err)
	}
	s := &session{Output: out, options: o, from: source, report: report{Host: o.host, start: time.Now()}}
	if err := o.known(ctx); err != nil {
		if s.Error = cli.Plain(err); s.JSON {
			err = errors.Join(err, s.summary())
		}
		return peer.Interrupted(err)
	}
	err = s.pings(ctx)
	if s.link != nil {
		err = errors.Join(err, s.link.Close())
	}
	return errors.Join(s.summary(), err, s.outcome())
}

// known resolves the host name first, because an unknown name will not answer any ping.
func (o *options) known(ctx context.Context) error {
	if _, err := netip.ParseAddr(o.host); err == nil {
		return nil
	}
	_, err := net.DefaultResolver.LookupNetIP(ctx, "ip", o.host)
	return err
}

// session is one run of the command.
type session struct {
	cli.Output
	options
	report
	from netip.AddrPort
	link *rping.Link // nil: connect first
}

// pings runs until the count is reached or ctx ends. A ping with wrong data is an error;
// a lost one is only counted.
func (s *session) pings(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for n := 1; s.count == 0 || n <= s.count; n++ {
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
		next.Reset(s.interval)
		took, err := s.one(ctx)
		switch {
		case ctx.Err() != nil: // the ping under way does not count
			return nil
		case errors.Is(err, rping.ErrMismatch):
			return err
		}
		if err := s.counted(n, took, err); err != nil {
			return err
		}
		if s.Answered == 0 && permanent(err) {
			return nil // outcome returns it
		}
	}
	return nil
}

// lasting are errors that a later ping would have too: of this machine, its routes and the options, not of a peer that
// is late, or gone for now.
var lasting = []error{
	verbs.ErrNoDevice, verbs.ErrNoProvider, verbs.ErrNotSupported, rping.ErrProtocol,
	syscall.EINVAL, syscall.ENODEV, syscall.ENOENT, syscall.ENXIO, syscall.EACCES, syscall.EPERM,
	syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT, syscall.ENETUNREACH,
}

// permanent reports whether the next ping would fail in the same way. Once a ping was answered no error is permanent:
// the device or the route has changed, and may come back.
func permanent(err error) bool {
	if rejected := new(rdmacm.RejectedError); errors.As(err, &rejected) {
		switch rejected.Reason {
		case rdmacm.RejectConsumer, rdmacm.RejectVendorOption, rdmacm.RejectOtherProtocol, rdmacm.RejectRefused:
			return true
		}
		return false
	}
	return slices.ContainsFunc(lasting, func(e error) bool { return errors.Is(err, e) })
}

// one sends a ping. It connects first if there is no connection.
func (s *session) one(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	if s.link == nil {
		start := time.Now()
		link, err := rping.Dial(ctx, net.JoinHostPort(s.host, strconv.Itoa(s.port)), s.from, s.size, false)
		if err != nil {
			return 0, err
		}
		s.link = link
		if err := s.connected(link, time.Since(start)); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	_, err := s.link.Ping(ctx)
	took := time.Since(start)
	if err == nil {
		err = s.link.Check()
	}
	if err != nil {
		err = errors.Join(err, s.link.Close())
		s.link = nil
	}
	return took, err
}

// outcome returns the error of a run without an answered ping.
func (s *session) outcome() error {
	switch {
	case s.Answered > 0:
		return nil
	case s.Error == "":
		return fmt.Errorf("no answer from %s", s.host)
	}
	return fmt.Errorf("no answer from %s: %s (rdmalink rping -s -P is a server)", s.host, s.Error)
}

// options is the command line.
type options struct {
	host, source      string
	port, size, count int
	interval, limit   time.Duration
	quiet, asJSON     bool
}

// table uses the wording of ping(8) for options that ping(8) has.
var table = cli.Options(
	cli.NewRow('c', "count", "N", "number of pings (default 0, no limit)", cli.Number("count", 0, math.MaxInt32, func(o *options) *int { return &o.count })),
	cli.NewRow('i', "interval", "SECONDS", "from ping to ping (default 1; 0: the next at once)", seconds("interval", func(o *options) *time.Duration { return &o.interval })),
	cli.NewRow('W', "timeout", "SECONDS", "to wait for a connection or an answer (default 2)", seconds("timeout", func(o *options) *time.Duration { return &o.limit })),
	cli.NewRow('s', "size", "BYTES", "of a ping, 23 to 65535 (default 64)", cli.Number("size", int64(rping.MinSize), rping.MaxSize, func(o *options) *int { return &o.size })),
	cli.NewRow('p', "port", "PORT", "where the server listens (default 7174)", cli.Number("port", 1, math.MaxUint16, func(o *options) *int { return &o.port })),
	cli.NewRow('I', "source", "ADDR", "own address to connect from", func(o *options, v string) error { o.source = v; return nil }),
	cli.NewRow('q', "quiet", "", "print the summary only", cli.Flag(func(o *options) *bool { return &o.quiet })),
	cli.NewRow('j', "json", "", "print one line of JSON, at the end", cli.Flag(func(o *options) *bool { return &o.asJSON })),
)

// seconds parses a time that may have a fraction.
func seconds(what string, field func(*options) *time.Duration) func(*options, string) error {
	return func(o *options, value string) error {
		s, err := strconv.ParseFloat(value, 64)
		if err != nil || !(s >= 0 && s <= 1e6) { // also true for NaN
			return cli.UsageError{Text: fmt.Sprintf("%q: the %s must be a number of seconds from 0 to 1000000", value, what)}
		}
		*field(o) = time.Duration(s * float64(time.Second))
		return nil
	}
}

func parse(args []string) (options, error) {
	o := options{port: rping.Port, size: 64, interval: time.Second, limit: 2 * time.Second}
	err := table.Parse(&o, args, func(word string) error {
		if o.host != "" || word == "" {
			return cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", word)}
		}
		o.host = word
		return nil
	})
	switch {
	case err != nil:
		return o, err
	case o.host == "":
		return o, cli.UsageError{Text: "the server's address is missing: rdmalink ping HOST"}
	case o.limit == 0:
		return o, cli.UsageError{Text: "-W must be above 0"}
	}
	return o, nil
}
