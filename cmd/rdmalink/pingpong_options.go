package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/uverbs"
)

// pingpongOptions is the command line of one of the programs.
type pingpongOptions struct {
	host, device     string
	tcpPort, ibPort  int
	size, rxDepth    int
	iters, qpCount   int
	sl, gid          int // gid is -1 unless given
	mtu              uverbs.MTU
	events, validate bool
	odp, prefetch    bool
	asJSON           bool
}

type pingpongOption = optionRow[pingpongOptions]

// pingpongTable has %d for the default size of a kind.
var pingpongTable = []pingpongOption{
	{'p', "port", "PORT", "TCP port to listen on or connect to (default 18515)", number("port", 1, math.MaxUint16, func(o *pingpongOptions) *int { return &o.tcpPort })},
	{'d', "ib-dev", "DEV", "RDMA device (default: the first that can do this)", func(o *pingpongOptions, v string) error { o.device = v; return nil }},
	{'i', "ib-port", "PORT", "port of the device (default 1)", number("device port", 1, math.MaxUint8, func(o *pingpongOptions) *int { return &o.ibPort })},
	{'s', "size", "BYTES", "size of a message (default %d)", number("size", 1, math.MaxInt32, func(o *pingpongOptions) *int { return &o.size })},
	{'m', "mtu", "BYTES", "path MTU: 256, 512, 1024, 2048 or 4096 (default 1024)", mtu(func(o *pingpongOptions) *uverbs.MTU { return &o.mtu })},
	{'q', "num-qp", "N", "QPs to use (default 16)", number("number of QPs", 1, pingpongMaxQP-1, func(o *pingpongOptions) *int { return &o.qpCount })},
	{'r', "rx-depth", "N", "receives to post at a time (default 500)", number("number of receives", 1, math.MaxInt32, func(o *pingpongOptions) *int { return &o.rxDepth })},
	{'n', "iters", "N", "exchanges, of all QPs together (default 1000)", number("number of exchanges", 1, math.MaxInt32, func(o *pingpongOptions) *int { return &o.iters })},
	{'l', "sl", "SL", "service level (default 0)", number("service level", 0, 15, func(o *pingpongOptions) *int { return &o.sl })},
	{'e', "events", "", "sleep until a completion event (default: poll)", flag(func(o *pingpongOptions) *bool { return &o.events })},
	{'g', "gid-idx", "INDEX", "index of the own GID (default: see below)", number("GID index", 0, math.MaxUint8, func(o *pingpongOptions) *int { return &o.gid })},
	{'o', "odp", "", "memory that is paged in on demand", flag(func(o *pingpongOptions) *bool { return &o.odp })},
	{'P', "prefetch", "", "with -o: page it in beforehand", flag(func(o *pingpongOptions) *bool { return &o.prefetch })},
	{'c', "chk", "", "check what arrived, at either end (C: the server)", flag(func(o *pingpongOptions) *bool { return &o.validate })},
	{'j', "json", "", "print one line of JSON, at the end", flag(func(o *pingpongOptions) *bool { return &o.asJSON })},
}

// options are the rows that hold for the kind.
func (k *pingpongKind) options() (all getopt[pingpongOptions]) {
	for _, o := range pingpongTable {
		if !strings.Contains(k.without, string(o.letter)) {
			o.help = strings.Replace(o.help, "%d", strconv.Itoa(k.size), 1)
			all = append(all, &o)
		}
	}
	return all
}
