package main

import (
	"math"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
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
	margin, waitDestroy int // seconds
	hopLimit, pkeyIndex int
	dlid, vector        int
	retryCount          int
	leastBW, leastRate  float64         // in what is printed
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
	{perfOption{'c', "connection", "TYPE", "service: RC (default), UC for SEND and WRITE, UD for SEND", setConnection}, nil},
	{perfOption{'d', "ib-dev", "DEV", "RDMA device (default: the first that can do this)", func(o *perfOptions, v string) error { o.device = v; return nil }}, nil},
	{perfOption{'D', "duration", "SECONDS", "for so long, of which the middle half counts, instead of -n", number("duration in seconds", 1, math.MaxInt32, func(o *perfOptions) *int { return &o.duration })}, nil},
	{perfOption{'e', "events", "", "sleep until a completion event (default: poll)", flag(func(o *perfOptions) *bool { return &o.Events })}, func(k perfKind) bool { return k != perfKind{perftest.Write, true} }},
	{perfOption{'f', "margin", "SECONDS", "of -D, what doesn't count at the beginning and at the end (default: a quarter)", number("margin in seconds", 1, math.MaxInt32, func(o *perfOptions) *int { return &o.margin })}, nil},
	{perfOption{'F', "CPU-freq", "", "taken as perftest's; there is no warning to leave out", func(*perfOptions, string) error { return nil }}, nil},
	{perfOption{'H', "report-histogram", "", "print every latency, the fastest first", flag(func(o *perfOptions) *bool { return &o.sorted })}, isLatency},
	{perfOption{'i', "ib-port", "PORT", "port of the device (default 1)", number("device port", 1, math.MaxUint8, func(o *perfOptions) *int { return &o.ibPort })}, nil},
	{perfOption{'I', "inline_size", "BYTES", "messages up to this size go into the work request (default 0)", number("size of inline data", 0, 912, func(o *perfOptions) *int { return &o.Inline })}, verbs(perftest.Send, perftest.Write)},
	{perfOption{'j', "json", "", "print one line of JSON, at the end", flag(func(o *perfOptions) *bool { return &o.asJSON })}, nil},
	{perfOption{'l', "post_list", "N", "post so many at a time (default 1)", number("length of a list", 1, 15000, func(o *perfOptions) *int { return &o.PostList })}, isBandwidth},
	{perfOption{'L', "hop_limit", "N", "hop limit, which RoCE has of the kernel's route (default 64)", number("hop limit", 1, math.MaxUint8, func(o *perfOptions) *int { return &o.hopLimit })}, nil},
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
	{perfOption{'w', "limit_bw", "N", "fail if the average bandwidth is lower, in the unit printed", limit("bandwidth", func(o *perfOptions) *float64 { return &o.leastBW })}, isBandwidth},
	{perfOption{'x', "gid-index", "INDEX", "index of the own GID (default: see below)", number("GID index", 0, math.MaxUint8, func(o *perfOptions) *int { return &o.gid })}, nil},
	{perfOption{'X', "vector", "N", "with -e: completion vector of the events (default 0)", number("completion vector", 0, math.MaxUint16, func(o *perfOptions) *int { return &o.vector })}, func(k perfKind) bool { return k.verb != perftest.Write }},
	{perfOption{'y', "limit_msgrate", "N", "fail if the message rate is lower, in Mpps", limit("message rate", func(o *perfOptions) *float64 { return &o.leastRate })}, isBandwidth},
	{perfOption{0, "disable_pcie_relaxed", "", "taken as perftest's; no memory is relaxed here", func(*perfOptions, string) error { return nil }}, isBandwidth},
	{perfOption{0, "dlid", "LID", "LID to send to (default: the one that the peer tells)", number("LID", 1, math.MaxUint16, func(o *perfOptions) *int { return &o.dlid })}, nil},
	{perfOption{0, "force-link", "TYPE", "IB or Ethernet: fail if the port is of the other", setLink}, nil},
	{perfOption{0, "odp", "", "page the memory in on demand", flag(func(o *perfOptions) *bool { return &o.ODP })}, nil},
	{perfOption{0, "report_gbits", "", "bandwidth in Gb/sec instead of MB/sec", flag(func(o *perfOptions) *bool { return &o.Gbits })}, isBandwidth},
	{perfOption{0, "perform_warm_up", "", "send a queue full before measuring", flag(func(o *perfOptions) *bool { return &o.WarmUp })}, func(k perfKind) bool { return !k.latency && k.verb != perftest.Send }},
	{perfOption{0, "pkey_index", "INDEX", "index of the port's P_Key (default 0)", number("P_Key index", 0, math.MaxUint16, func(o *perfOptions) *int { return &o.pkeyIndex })}, nil},
	{perfOption{0, "retry_count", "N", "with -R: how often a message is sent again (default 7)", number("number of retries", 0, 7, func(o *perfOptions) *int { return &o.retryCount })}, nil},
	{perfOption{0, "use_old_post_send", "", "taken as perftest's; there is one way to post", func(*perfOptions, string) error { return nil }}, nil},
	{perfOption{0, "wait_destroy", "SECONDS", "wait at the end, before all is closed", number("time to wait in seconds", 0, math.MaxInt32, func(o *perfOptions) *int { return &o.waitDestroy })}, isBandwidth},
}
