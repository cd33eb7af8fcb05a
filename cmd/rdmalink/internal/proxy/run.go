// Package proxy passes connections on between TCP and RDMA.
package proxy

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rsocket"
)

// Details returns the help text.
func Details() string {
	return `
Two proxies, one beside each program, let programs without RDMA support use RDMA:

  server$ rdmalink proxy rdma::7471 tcp:127.0.0.1:80
  client$ rdmalink proxy tcp:127.0.0.1:8080 rdma:10.0.0.2:7471
  client$ curl http://127.0.0.1:8080/

For each connection to LISTEN, the proxy connects to CONNECT and forwards data in
both directions, including the end of each direction. rdma: is librdmacm's rsocket
protocol, so one side may also be a program that uses rsocket. Without HOST, the proxy
listens on all addresses.

` + table.Help() + `
If one end fails or stops reading, the proxy still forwards the data of the other end,
until it has been idle for 5 seconds. So no answer is lost if a server answers early
and closes the connection.

The proxy runs until interrupted, which ends all connections. A connection that fails
is reported, and does not affect the others. The exit code is 0 after an interrupt, 1
if the proxy can't listen, 2 for an invalid command line.`
}

// Run runs the command.
func Run(ctx context.Context, out cli.Output, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	out.JSON = out.JSON || o.asJSON
	p := &proxy{Output: out, options: o}
	l, err := o.from.listen(ctx)
	if err != nil {
		return err
	}
	return p.serve(ctx, l)
}

// proxy is one run of the command.
type proxy struct {
	cli.Output
	options
	printing sync.Mutex
}

func (p *proxy) serve(ctx context.Context, l net.Listener) error {
	return cli.AcceptAll(ctx, l, p.most, p.pass, func(err error) {
		p.printing.Lock()
		defer p.printing.Unlock()
		p.Note("%s", cli.PlainLine(err))
	})
}

// options is the command line.
type options struct {
	from, to endpoint
	limit    int // seconds, of a dial
	idle     int // seconds, of a connection; 0: no limit
	most     int // connections at a time
	verbose  bool
	asJSON   bool
}

var table = cli.Options(
	cli.NewRow('W', "timeout", "SECONDS", "to wait for a connection to CONNECT (default 10)", cli.Number("timeout", 1, 3600, func(o *options) *int { return &o.limit })),
	cli.NewRow('t', "idle", "SECONDS", "to keep a connection over which nothing passes (default 600; 0: no limit)", cli.Number("idle time", 0, 1<<30, func(o *options) *int { return &o.idle })),
	cli.NewRow('n', "connections", "N", "to pass on at a time, others wait; about half may be from one address (default 512)", cli.Number("number of connections", 1, 1<<16, func(o *options) *int { return &o.most })),
	cli.NewRow('v', "verbose", "", "print a line for each connection", cli.Flag(func(o *options) *bool { return &o.verbose })),
	cli.NewRow('j', "json", "", "print a line of JSON for each connection", cli.Flag(func(o *options) *bool { return &o.asJSON })),
)

func (o *options) timeout() time.Duration { return time.Duration(o.limit) * time.Second }

func parse(args []string) (options, error) {
	o := options{limit: 10, idle: 600, most: 512}
	var words []string
	err := table.Parse(&o, args, func(word string) error { words = append(words, word); return nil })
	switch {
	case err != nil:
		return o, err
	case len(words) < 2:
		return o, cli.UsageError{Text: "expected LISTEN and CONNECT, each tcp:HOST:PORT or rdma:HOST:PORT"}
	case len(words) > 2:
		return o, cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", words[2])}
	}
	if o.from, err = parseEndpoint(words[0]); err != nil {
		return o, err
	}
	o.to, err = parseEndpoint(words[1])
	return o, err
}

// endpoint is an address to listen on or to connect to: tcp:HOST:PORT or
// rdma:HOST:PORT.
type endpoint struct {
	rdma    bool
	address string
}

func parseEndpoint(word string) (endpoint, error) {
	kind, address, _ := strings.Cut(word, ":")
	if kind != "tcp" && kind != "rdma" {
		return endpoint{}, cli.UsageError{Text: fmt.Sprintf("%q: want tcp:HOST:PORT or rdma:HOST:PORT", word)}
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return endpoint{}, cli.UsageError{Text: fmt.Sprintf("%q: %v", word, err)}
	}
	return endpoint{kind == "rdma", address}, nil
}

func (e endpoint) listen(ctx context.Context) (net.Listener, error) {
	if e.rdma {
		var lc rsocket.ListenConfig
		return lc.Listen(ctx, e.address)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", e.address)
}

func (e endpoint) dial(ctx context.Context) (net.Conn, error) {
	if e.rdma {
		return rsocket.Dial(ctx, e.address)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", e.address)
}

func (e endpoint) String() string {
	if e.rdma {
		return "rdma:" + e.address
	}
	return "tcp:" + e.address
}
