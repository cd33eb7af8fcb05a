package ping

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/rping"
)

// options is the command line.
type options struct {
	host, source      string
	port, size, count int
	interval, limit   time.Duration
	quiet, asJSON     bool
}

// table is in the words of ping(8) where that has the option.
var table = cli.Options(
	cli.NewRow('c', "count", "N", "stop after so many pings (default 0, no end)", cli.Number("count", 0, math.MaxInt32, func(o *options) *int { return &o.count })),
	cli.NewRow('i', "interval", "SECONDS", "from ping to ping (default 1; 0: the next at once)", seconds("interval", func(o *options) *time.Duration { return &o.interval })),
	cli.NewRow('W', "timeout", "SECONDS", "to wait for a connection or an answer (default 2)", seconds("timeout", func(o *options) *time.Duration { return &o.limit })),
	cli.NewRow('s', "size", "BYTES", "of a ping, 23 to 65535 (default 64)", cli.Number("size", int64(rping.MinSize), rping.MaxSize, func(o *options) *int { return &o.size })),
	cli.NewRow('p', "port", "PORT", "where the server listens (default 7174)", cli.Number("port", 1, math.MaxUint16, func(o *options) *int { return &o.port })),
	cli.NewRow('I', "source", "ADDR", "own address to connect from", func(o *options, v string) error { o.source = v; return nil }),
	cli.NewRow('q', "quiet", "", "print the summary only", cli.Flag(func(o *options) *bool { return &o.quiet })),
	cli.NewRow('j', "json", "", "print one line of JSON, at the end", cli.Flag(func(o *options) *bool { return &o.asJSON })),
)

// seconds is an option of a time that may have a fraction.
func seconds(what string, field func(*options) *time.Duration) func(*options, string) error {
	return func(o *options, value string) error {
		s, err := strconv.ParseFloat(value, 64)
		if err != nil || !(s >= 0 && s <= 1e6) { // also true for NaN
			return cli.UsageError{Text: fmt.Sprintf("%q: the %s is a number of seconds from 0 to 1000000", value, what)}
		}
		*field(o) = time.Duration(s * float64(time.Second))
		return nil
	}
}

func parse(args []string) (options, error) {
	o := options{port: rping.Port, size: 64, interval: time.Second, limit: 2 * time.Second}
	err := table.Parse(&o, args, func(word string) error {
		if o.host != "" || word == "" {
			return cli.UsageError{Text: fmt.Sprintf("%q is one word too many", word)}
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
		return o, cli.UsageError{Text: "-W 0: no ping is answered at once"}
	}
	return o, nil
}
