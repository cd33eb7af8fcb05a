package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/internal/perf"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/uverbs"
)

// perfOptions is the command line of one of the programs.
type perfOptions struct {
	perf.Options
	host, device        string
	source              string
	tcpPort, gid        int // gid is -1 unless given
	sorted, unsorted    bool
	asJSON              bool
	ibPort, sl, tclass  int
	qpTimeout, duration int
	given               map[string]bool // long names
}

type perfOption = optionRow[perfOptions]

// perfRow is an option with the kinds of tests that have it.
type perfRow struct {
	perfOption
	has func(perfKind) bool
}

func isLatency(k perfKind) bool   { return k.latency }
func isBandwidth(k perfKind) bool { return !k.latency }

// verbs are all tests of these.
func verbs(list ...perftest.Verb) func(perfKind) bool {
	return func(k perfKind) bool {
		for _, v := range list {
			if v == k.verb {
				return true
			}
		}
		return false
	}
}

// perfTable has perftest's names for what is perftest's.
var perfTable = []perfRow{
	{perfOption{'a', "all", "", "all sizes, 2 bytes to 8 MiB, of datagrams to the MTU", flag(func(o *perfOptions) *bool { return &o.AllSizes })}, verbs(perftest.Send, perftest.Write, perftest.Read)},
	{perfOption{'A', "atomic_type", "TYPE", "FETCH_AND_ADD (default) or CMP_AND_SWAP", setAtomic}, verbs(perftest.Atomic)},
	{perfOption{'b', "bidirectional", "", "in both directions at once", flag(func(o *perfOptions) *bool { return &o.Bidirectional })}, isBandwidth},
	{perfOption{'c', "connection", "TYPE", "service: RC (default), UC, or UD, which SEND only has", setConnection}, verbs(perftest.Send, perftest.Write)},
	{perfOption{'d', "ib-dev", "DEV", "RDMA device (default: the first that can do this)", func(o *perfOptions, v string) error { o.device = v; return nil }}, nil},
	{perfOption{'D', "duration", "SECONDS", "for so long, of which the middle half counts, instead of -n", number("duration in seconds", 1, math.MaxInt32, func(o *perfOptions) *int { return &o.duration })}, nil},
	{perfOption{'e', "events", "", "sleep until a completion event (default: poll)", flag(func(o *perfOptions) *bool { return &o.Events })}, func(k perfKind) bool { return k != perfKind{perftest.Write, true} }},
	{perfOption{'H', "report-histogram", "", "print every latency, the fastest first", flag(func(o *perfOptions) *bool { return &o.sorted })}, isLatency},
	{perfOption{'i', "ib-port", "PORT", "port of the device (default 1)", number("device port", 1, math.MaxUint8, func(o *perfOptions) *int { return &o.ibPort })}, nil},
	{perfOption{'I', "inline_size", "BYTES", "messages up to this size go into the work request (default 0)", number("size of inline data", 0, 912, func(o *perfOptions) *int { return &o.Inline })}, verbs(perftest.Send, perftest.Write)},
	{perfOption{'j', "json", "", "print one line of JSON, at the end", flag(func(o *perfOptions) *bool { return &o.asJSON })}, nil},
	{perfOption{'l', "post_list", "N", "post so many at a time (default 1)", number("length of a list", 1, 15000, func(o *perfOptions) *int { return &o.PostList })}, isBandwidth},
	{perfOption{'m', "mtu", "BYTES", "path MTU: 256 to 4096 (default: the port's; the smaller of both ends counts)", mtu(func(o *perfOptions) *uverbs.MTU { return &o.MTU })}, nil},
	{perfOption{'n', "iters", "N", "messages of each QP, at least 5 (default 1000, write bw 5000)", number("number of messages", 5, 100000000, func(o *perfOptions) *int { return &o.Iters })}, nil},
	{perfOption{'N', "noPeak", "", "don't look for the peak", flag(func(o *perfOptions) *bool { return &o.NoPeak })}, isBandwidth},
	{perfOption{'o', "outs", "N", "READs or atomics in flight (default: what the device can)", number("number of outstanding reads", 1, math.MaxUint8, func(o *perfOptions) *int { return &o.OutReads })}, verbs(perftest.Read, perftest.Atomic)},
	{perfOption{'p', "port", "PORT", "port to listen on or connect to (default 18515)", number("port", 1, math.MaxUint16, func(o *perfOptions) *int { return &o.tcpPort })}, nil},
	{perfOption{'q', "qp", "N", "QPs (default 1)", number("number of QPs", 1, 16384, func(o *perfOptions) *int { return &o.QPCount })}, isBandwidth},
	{perfOption{'Q', "cq-mod", "N", "a completion for so many messages (default 100; 1 beyond 8192 bytes)", number("number of messages to a completion", 1, 1024, func(o *perfOptions) *int { return &o.CQMod })}, isBandwidth},
	{perfOption{'r', "rx-depth", "N", "receives posted (default 512; UC and UD: up to 16000)", number("number of receives", 1, 16384, func(o *perfOptions) *int { return &o.RxDepth })}, verbs(perftest.Send)},
	{perfOption{'R', "rdma_cm", "", "connect with rdma_cm; HOST is an address of the server's device", flag(func(o *perfOptions) *bool { return &o.CM })}, nil},
	{perfOption{'s', "size", "BYTES", "size of a message, also as 64K or 1M (default: lat 2, bw 65536)", setSize}, verbs(perftest.Send, perftest.Write, perftest.Read)},
	{perfOption{'S', "sl", "SL", "service level (default 0)", number("service level", 0, 15, func(o *perfOptions) *int { return &o.sl })}, nil},
	{perfOption{0, "source_ip", "ADDR", "with -R: the local address to connect from or to listen on", func(o *perfOptions, v string) error { o.source = v; return nil }}, nil},
	{perfOption{0, "tclass", "N", "traffic class (default 0)", number("traffic class", 0, math.MaxUint8, func(o *perfOptions) *int { return &o.tclass })}, nil},
	{perfOption{'t', "tx-depth", "N", "sends outstanding (default 128)", number("number of sends", 1, 15000, func(o *perfOptions) *int { return &o.TxDepth })}, isBandwidth},
	{perfOption{'u', "qp-timeout", "N", "wait 4.096 us * 2^N for an acknowledgement (default 14)", number("timeout", 1, 31, func(o *perfOptions) *int { return &o.qpTimeout })}, nil},
	{perfOption{'U', "report-unsorted", "", "print every latency, in the order of time", flag(func(o *perfOptions) *bool { return &o.unsorted })}, isLatency},
	{perfOption{'x', "gid-index", "INDEX", "index of the own GID (default: see below)", number("GID index", 0, math.MaxUint8, func(o *perfOptions) *int { return &o.gid })}, nil},
	{perfOption{0, "report_gbits", "", "bandwidth in Gb/sec instead of MB/sec", flag(func(o *perfOptions) *bool { return &o.Gbits })}, isBandwidth},
	{perfOption{0, "perform_warm_up", "", "send a queue full before measuring", flag(func(o *perfOptions) *bool { return &o.WarmUp })}, func(k perfKind) bool { return !k.latency && k.verb != perftest.Send }},
}

// options are the rows that hold for the kind. Each notes that it was given.
func (k perfKind) options() (all getopt[perfOptions]) {
	for _, row := range perfTable {
		if row.has != nil && !row.has(k) {
			continue
		}
		o := row.perfOption
		o.set = func(to *perfOptions, value string) error {
			to.given[o.long] = true
			return row.set(to, value)
		}
		all = append(all, &o)
	}
	return all
}

func setAtomic(o *perfOptions, value string) error {
	switch value {
	case "FETCH_AND_ADD":
		o.Atomic = uverbs.OpFetchAdd
	case "CMP_AND_SWAP":
		o.Atomic = uverbs.OpCompareSwap
	default:
		return expected(value, "FETCH_AND_ADD", "CMP_AND_SWAP")
	}
	return nil
}

func setConnection(o *perfOptions, value string) error {
	types := map[string]uverbs.QPType{"RC": uverbs.QPTypeRC, "UC": uverbs.QPTypeUC, "UD": uverbs.QPTypeUD}
	typ, ok := types[value]
	if !ok {
		return expected(value, "RC", "UC", "UD")
	}
	o.Type = typ
	return nil
}

func setSize(o *perfOptions, value string) error {
	text, factor := value, 1
	for suffix, f := range map[string]int{"K": 1 << 10, "M": 1 << 20} {
		if cut, ok := strings.CutSuffix(value, suffix); ok {
			text, factor = cut, f
		}
	}
	n, err := strconv.ParseInt(text, 0, 32)
	if err != nil || n < 1 || n > math.MaxInt32/int64(factor) {
		return usageError{text: strconv.Quote(value) + ": the size is a number from 1 to 2147483647, or one with K or M behind it"}
	}
	o.Size = int(n) * factor
	return nil
}

// complete hands over what the engine takes in another type.
func (o *perfOptions) complete() {
	o.Role = perftest.Client
	if o.host == "" {
		o.Role = perftest.Server
	}
	o.Port, o.SL, o.TrafficClass, o.QPTimeout = uint8(o.ibPort), uint8(o.sl), uint8(o.tclass), uint8(o.qpTimeout)
	o.Time = time.Duration(o.duration) * time.Second
}
