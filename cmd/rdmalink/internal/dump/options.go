package dump

import (
	"fmt"
	"math"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// options is the command line.
type options struct {
	netdev, file, to string
	count            int
	asJSON           bool
}

// flags are in the words of tcpdump(8).
var flags = cli.Options(
	cli.NewRow('i', "interface", "NETDEV", "print what passes a network device, in place of a file", func(o *options, v string) error { o.netdev = v; return nil }),
	cli.NewRow('w', "write", "FILE", "write the packets to FILE (pcap) in place of printing them", func(o *options, v string) error { o.to = v; return nil }),
	cli.NewRow('c', "count", "N", "end after so many messages (default 0, no end)", cli.Number("count", 0, math.MaxInt32, func(o *options) *int { return &o.count })),
	cli.NewRow('j', "json", "", "print a line of JSON for each message", cli.Flag(func(o *options) *bool { return &o.asJSON })),
)

func parse(args []string) (o options, err error) {
	err = flags.Parse(&o, args, func(word string) error {
		if o.file != "" || word == "" {
			return cli.UsageError{Text: fmt.Sprintf("%q is one word too many", word)}
		}
		o.file = word
		return nil
	})
	switch {
	case err != nil:
		return o, err
	case o.file == "" && o.netdev == "":
		return o, cli.UsageError{Text: "what to read is missing: rdmalink dump FILE, or -i NETDEV"}
	case o.file != "" && o.netdev != "":
		return o, cli.UsageError{Text: "-i NETDEV and FILE exclude each other"}
	}
	return o, nil
}
