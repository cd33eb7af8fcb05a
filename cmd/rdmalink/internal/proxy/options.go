package proxy

import (
	"fmt"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

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
	cli.NewRow('n', "connections", "N", "to pass on at a time, others wait (default 512)", cli.Number("number of connections", 1, 1<<16, func(o *options) *int { return &o.most })),
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
		return o, cli.UsageError{Text: fmt.Sprintf("%q is one word too many", words[2])}
	}
	if o.from, err = parseEndpoint(words[0]); err != nil {
		return o, err
	}
	o.to, err = parseEndpoint(words[1])
	return o, err
}
