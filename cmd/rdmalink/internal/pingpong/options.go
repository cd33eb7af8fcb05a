package pingpong

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

// options is the command line of one of the programs.
type options struct {
	host, device     string
	tcpPort, ibPort  int
	size, rxDepth    int
	iters, qpCount   int
	sl, gid          int // gid is -1 unless given
	mtu              verbs.MTU
	events, validate bool
	odp, prefetch    bool
	asJSON           bool
}

type option = cli.Row[options]

// table has %d for the default size of a kind.
var table = []option{
	cli.NewRow('p', "port", "PORT", "TCP port to listen on or connect to (default 18515)", cli.Number("port", 1, math.MaxUint16, func(o *options) *int { return &o.tcpPort })),
	cli.NewRow('d', "ib-dev", "DEV", "RDMA device (default: the first suitable one)", func(o *options, v string) error { o.device = v; return nil }),
	cli.NewRow('i', "ib-port", "PORT", "port of the device (default 1)", cli.Number("device port", 1, math.MaxUint8, func(o *options) *int { return &o.ibPort })),
	cli.NewRow('s', "size", "BYTES", "message size (default %d)", cli.Number("size", 1, math.MaxInt32, func(o *options) *int { return &o.size })),
	cli.NewRow('m', "mtu", "BYTES", "path MTU: 256, 512, 1024, 2048 or 4096 (default 1024)", cli.MTU(func(o *options) *verbs.MTU { return &o.mtu })),
	cli.NewRow('q', "num-qp", "N", "number of QPs (default 16)", cli.Number("number of QPs", 1, maxQP-1, func(o *options) *int { return &o.qpCount })),
	cli.NewRow('r', "rx-depth", "N", "number of receives to post at a time (default 500)", cli.Number("number of receives", 1, math.MaxInt32, func(o *options) *int { return &o.rxDepth })),
	cli.NewRow('n', "iters", "N", "number of exchanges of all QPs together (default 1000)", cli.Number("number of exchanges", 1, math.MaxInt32, func(o *options) *int { return &o.iters })),
	cli.NewRow('l', "sl", "SL", "service level (default 0)", cli.Number("service level", 0, 15, func(o *options) *int { return &o.sl })),
	cli.NewRow('e', "events", "", "sleep until a completion event (default: poll)", cli.Flag(func(o *options) *bool { return &o.events })),
	cli.NewRow('g', "gid-idx", "INDEX", "index of this end's GID (default: see below)", cli.Number("GID index", 0, math.MaxUint8, func(o *options) *int { return &o.gid })),
	cli.NewRow('o', "odp", "", "use memory with on-demand paging", cli.Flag(func(o *options) *bool { return &o.odp })),
	cli.NewRow('P', "prefetch", "", "with -o: load the memory before it is used", cli.Flag(func(o *options) *bool { return &o.prefetch })),
	cli.NewRow('c', "chk", "", "check the received data at this end (C: the server only)", cli.Flag(func(o *options) *bool { return &o.validate })),
	cli.NewRow('j', "json", "", "print the result as one line of JSON", cli.Flag(func(o *options) *bool { return &o.asJSON })),
}

// options returns the rows that apply to the kind.
func (k *Kind) options() (all cli.Getopt[options]) {
	for _, o := range table {
		if !strings.Contains(k.without, string(o.Letter)) {
			o.Help = strings.Replace(o.Help, "%d", strconv.Itoa(k.size), 1)
			all = append(all, &o)
		}
	}
	return all
}

func (k *Kind) defaults() options {
	o := options{tcpPort: 18515, ibPort: 1, size: k.size, mtu: verbs.MTU1024, rxDepth: 500, iters: 1000, gid: -1, qpCount: 1}
	if k.srq {
		o.qpCount = 16
	}
	return o
}

func parse(k *Kind, args []string) (options, error) {
	o := k.defaults()
	if err := k.options().Parse(&o, args, o.setHost); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o *options) setHost(word string) error {
	if o.host != "" || word == "" {
		return cli.UsageError{Text: fmt.Sprintf("unexpected argument %q", word)}
	}
	o.host = word
	return nil
}

// check returns an error for options that contradict each other.
func (o *options) check() error {
	switch {
	case o.qpCount > o.rxDepth:
		return cli.UsageError{Text: fmt.Sprintf("-r %d is too small for %d QPs: each QP needs a receive", o.rxDepth, o.qpCount)}
	case o.prefetch && !o.odp:
		return cli.UsageError{Text: "-P needs -o"}
	}
	return nil
}
