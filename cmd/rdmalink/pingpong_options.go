package main

import (
	"fmt"
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

// pingpongOption is a row of the table from which come -h, the parser and its
// errors.
type pingpongOption struct {
	letter      byte
	long, value string // value names what follows; a flag has none
	help        string // with %d for the default size
	set         func(o *pingpongOptions, value string) error
}

func (p *pingpongOption) summary(k *pingpongKind) string {
	if strings.Contains(p.help, "%d") {
		return fmt.Sprintf(p.help, k.size)
	}
	return p.help
}

var pingpongTable = []pingpongOption{
	{'p', "port", "PORT", "TCP port to listen on or connect to (default 18515)", number("port", 1, math.MaxUint16, func(o *pingpongOptions) *int { return &o.tcpPort })},
	{'d', "ib-dev", "DEV", "RDMA device (default: the first that can do this)", func(o *pingpongOptions, v string) error { o.device = v; return nil }},
	{'i', "ib-port", "PORT", "port of the device (default 1)", number("device port", 1, math.MaxUint8, func(o *pingpongOptions) *int { return &o.ibPort })},
	{'s', "size", "BYTES", "size of a message (default %d)", number("size", 1, math.MaxInt32, func(o *pingpongOptions) *int { return &o.size })},
	{'m', "mtu", "BYTES", "path MTU: 256, 512, 1024, 2048 or 4096 (default 1024)", setPingpongMTU},
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
func (k *pingpongKind) options() []*pingpongOption {
	var all []*pingpongOption
	for i := range pingpongTable {
		if o := &pingpongTable[i]; !strings.Contains(k.without, string(o.letter)) {
			all = append(all, o)
		}
	}
	return all
}

func flag(field func(*pingpongOptions) *bool) func(*pingpongOptions, string) error {
	return func(o *pingpongOptions, _ string) error { *field(o) = true; return nil }
}

// number takes all that strtol takes: 0x10 is 16.
func number(what string, least, most int64, field func(*pingpongOptions) *int) func(*pingpongOptions, string) error {
	return func(o *pingpongOptions, value string) error {
		n, err := strconv.ParseInt(value, 0, 64)
		if err != nil || n < least || n > most {
			return usageError{text: fmt.Sprintf("%q: the %s is a number from %d to %d", value, what, least, most)}
		}
		*field(o) = int(n)
		return nil
	}
}

func setPingpongMTU(o *pingpongOptions, value string) error {
	for mtu := uverbs.MTU256; mtu <= uverbs.MTU4096; mtu++ {
		if value == strconv.Itoa(mtu.Bytes()) {
			o.mtu = mtu
			return nil
		}
	}
	return expected(value, "256", "512", "1024", "2048", "4096")
}
