package rping

import (
	"fmt"
	"math"
	"net"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// The limits of a ping's size, which librdmacm's rping enforces: the text of the longest
// ping number has to fit. Port is where servers listen.
const (
	MinSize = len("rdma-ping-2147483647: ") + 1
	MaxSize = 64<<10 - 1
	Port    = 7174
)

// options is rping's command line.
type options struct {
	server, client    bool
	addr, source      string
	port              int
	count, size       int
	verbose, validate bool
	persistent, poll  bool
	ownQP, debug      bool
	asJSON            bool
}

// address returns the address to dial or to listen on.
func (o *options) address() string {
	return net.JoinHostPort(o.addr, strconv.Itoa(o.port))
}

var table = cli.Options(
	cli.NewRow('s', "server", "", "serve one client, until it disconnects", cli.Flag(func(o *options) *bool { return &o.server })),
	cli.NewRow('c', "client", "", "ping a server", cli.Flag(func(o *options) *bool { return &o.client })),
	cli.NewRow('a', "address", "ADDR", "server: address to listen on (default: all); client: the server's address or name", func(o *options, v string) error { o.addr = v; return nil }),
	cli.NewRow('I', "source", "ADDR", "client: own address to connect from", func(o *options, v string) error { o.source = v; return nil }),
	cli.NewRow('p', "port", "PORT", "port (default 7174)", cli.Number("port", 1, math.MaxUint16, func(o *options) *int { return &o.port })),
	cli.NewRow('C', "count", "N", "client: number of pings (default 0, no limit); server: fail if the client sends fewer", cli.Number("count", 0, math.MaxInt32, func(o *options) *int { return &o.count })),
	cli.NewRow('S', "size", "BYTES", "client: of a ping, 23 to 65535 (default 64); the server accepts any", cli.Number("size", int64(MinSize), MaxSize, func(o *options) *int { return &o.size })),
	cli.NewRow('v', "verbose", "", "print the ping data", cli.Flag(func(o *options) *bool { return &o.verbose })),
	cli.NewRow('V', "validate", "", "client: compare the data that is returned with the data sent", cli.Flag(func(o *options) *bool { return &o.validate })),
	cli.NewRow('P', "persistent", "", "server: serve any number of clients, until interrupted", cli.Flag(func(o *options) *bool { return &o.persistent })),
	cli.NewRow('q', "own-qp", "", "create the queue pair and change its states with separate calls; the peer sees no difference", cli.Flag(func(o *options) *bool { return &o.ownQP })),
	cli.NewRow('d', "debug", "", "print each step to standard error", cli.Flag(func(o *options) *bool { return &o.debug })),
	cli.NewRow(0, "poll", "", "poll for completions (default: sleep until an event)", cli.Flag(func(o *options) *bool { return &o.poll })),
	cli.NewRow('j', "json", "", "instead of ping data, print one line of JSON with the result at the end of each connection", cli.Flag(func(o *options) *bool { return &o.asJSON })),
)

func parse(args []string) (options, error) {
	o := options{port: Port, size: 64}
	err := table.Parse(&o, args, func(word string) error {
		return cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", word)}
	})
	if err != nil {
		return o, err
	}
	return o, o.check()
}

// check returns an error for options that contradict each other.
func (o *options) check() error {
	switch {
	case o.server == o.client:
		return cli.Expected("", "-s", "-c")
	case o.client && o.addr == "":
		return cli.UsageError{Text: "-c: the server's address is missing: -a ADDR"}
	case o.client && o.persistent:
		return cli.UsageError{Text: "-P is for the server"}
	case o.server && o.source != "":
		return cli.UsageError{Text: "-I is for the client; the server's address is -a"}
	}
	return nil
}
