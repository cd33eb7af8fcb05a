package perfcmd

import (
	"math"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// options is the command line of one of the programs.
type options struct {
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
	leastBW, leastRate  float64         // in the printed unit
	given               map[string]bool // long names
}

type option = cli.Row[options]

// row is an option with the kinds of tests that have it.
type row struct {
	option
	has func(Kind) bool
}

func isLatency(k Kind) bool   { return k.Latency }
func isBandwidth(k Kind) bool { return !k.Latency }

// verbsOf are all tests of these.
func verbsOf(list ...perftest.Verb) func(Kind) bool {
	return func(k Kind) bool {
		for _, v := range list {
			if v == k.Verb {
				return true
			}
		}
		return false
	}
}

// table lists perftest's options under perftest's names.
var table = []row{
	{cli.NewRow('a', "all", "", "all sizes, 2 bytes to 8 MiB, of datagrams to the MTU", cli.Flag(func(o *options) *bool { return &o.AllSizes })), verbsOf(perftest.Send, perftest.Write, perftest.Read)},
	{cli.NewRow('A', "atomic_type", "TYPE", "FETCH_AND_ADD (default) or CMP_AND_SWAP", setAtomic), verbsOf(perftest.Atomic)},
	{cli.NewRow('b', "bidirectional", "", "in both directions at once", cli.Flag(func(o *options) *bool { return &o.Bidirectional })), isBandwidth},
	{cli.NewRow('c', "connection", "TYPE", "service: RC (default), UC for SEND and WRITE, UD for SEND", setConnection), nil},
	{cli.NewRow('d', "ib-dev", "DEV", "RDMA device (default: the first that can do this)", func(o *options, v string) error { o.device = v; return nil }), nil},
	{cli.NewRow('D', "duration", "SECONDS", "for so long, of which the middle half counts, instead of -n", cli.Number("duration in seconds", 1, math.MaxInt32, func(o *options) *int { return &o.duration })), nil},
	{cli.NewRow('e', "events", "", "sleep until a completion event (default: poll)", cli.Flag(func(o *options) *bool { return &o.Events })), func(k Kind) bool { return k != Kind{perftest.Write, true} }},
	{cli.NewRow('f', "margin", "SECONDS", "of -D, what doesn't count at the beginning and at the end (default: a quarter)", cli.Number("margin in seconds", 1, math.MaxInt32, func(o *options) *int { return &o.margin })), nil},
	{cli.NewRow('F', "CPU-freq", "", "taken as perftest's; there is no warning to leave out", func(*options, string) error { return nil }), nil},
	{cli.NewRow('H', "report-histogram", "", "print every latency, the fastest first", cli.Flag(func(o *options) *bool { return &o.sorted })), isLatency},
	{cli.NewRow('i', "ib-port", "PORT", "port of the device (default 1)", cli.Number("device port", 1, math.MaxUint8, func(o *options) *int { return &o.ibPort })), nil},
	{cli.NewRow('I', "inline_size", "BYTES", "messages up to this size go into the work request (default 0)", cli.Number("size of inline data", 0, 912, func(o *options) *int { return &o.Inline })), verbsOf(perftest.Send, perftest.Write)},
	{cli.NewRow('j', "json", "", "print one line of JSON, at the end", cli.Flag(func(o *options) *bool { return &o.asJSON })), nil},
	{cli.NewRow('l', "post_list", "N", "post so many at a time (default 1)", cli.Number("length of a list", 1, 15000, func(o *options) *int { return &o.PostList })), isBandwidth},
	{cli.NewRow('L', "hop_limit", "N", "hop limit, which RoCE has of the kernel's route (default 64)", cli.Number("hop limit", 1, math.MaxUint8, func(o *options) *int { return &o.hopLimit })), nil},
	{cli.NewRow('m', "mtu", "BYTES", "path MTU: 256 to 4096 (default: the port's; the smaller of both ends counts)", cli.MTU(func(o *options) *verbs.MTU { return &o.MTU })), nil},
	{cli.NewRow('n', "iters", "N", "messages of each QP, at least 5 (default 1000, write bw 5000)", cli.Number("number of messages", 5, 100000000, func(o *options) *int { return &o.Iters })), nil},
	{cli.NewRow('N', "noPeak", "", "don't look for the peak", cli.Flag(func(o *options) *bool { return &o.NoPeak })), isBandwidth},
	{cli.NewRow('o', "outs", "N", "READs or atomics in flight (default: what the device can)", cli.Number("number of outstanding reads", 1, math.MaxUint8, func(o *options) *int { return &o.OutReads })), verbsOf(perftest.Read, perftest.Atomic)},
	{cli.NewRow('p', "port", "PORT", "port to listen on or connect to (default 18515)", cli.Number("port", 1, math.MaxUint16, func(o *options) *int { return &o.tcpPort })), nil},
	{cli.NewRow('q', "qp", "N", "QPs (default 1)", cli.Number("number of QPs", 1, 16384, func(o *options) *int { return &o.QPCount })), isBandwidth},
	{cli.NewRow('Q', "cq-mod", "N", "a completion for so many messages (default 100; 1 beyond 8192 bytes)", cli.Number("number of messages to a completion", 1, 1024, func(o *options) *int { return &o.CQMod })), isBandwidth},
	{cli.NewRow('r', "rx-depth", "N", "receives posted (default 512; UC and UD: up to 16000)", cli.Number("number of receives", 1, 16384, func(o *options) *int { return &o.RxDepth })), verbsOf(perftest.Send)},
	{cli.NewRow('R', "rdma_cm", "", "connect with rdma_cm; HOST is an address of the server's device", cli.Flag(func(o *options) *bool { return &o.CM })), nil},
	{cli.NewRow('s', "size", "BYTES", "size of a message, also as 64K or 1M (default: lat 2, bw 65536)", setSize), verbsOf(perftest.Send, perftest.Write, perftest.Read)},
	{cli.NewRow('S', "sl", "SL", "service level (default 0)", cli.Number("service level", 0, 15, func(o *options) *int { return &o.sl })), nil},
	{cli.NewRow(0, "source_ip", "ADDR", "with -R: the local address to connect from or to listen on", func(o *options, v string) error { o.source = v; return nil }), nil},
	{cli.NewRow(0, "tclass", "N", "traffic class (default 0)", cli.Number("traffic class", 0, math.MaxUint8, func(o *options) *int { return &o.tclass })), nil},
	{cli.NewRow('t', "tx-depth", "N", "sends outstanding (default 128)", cli.Number("number of sends", 1, 15000, func(o *options) *int { return &o.TxDepth })), isBandwidth},
	{cli.NewRow('u', "qp-timeout", "N", "wait 4.096 us * 2^N for an acknowledgement (default 14)", cli.Number("timeout", 1, 31, func(o *options) *int { return &o.qpTimeout })), nil},
	{cli.NewRow('U', "report-unsorted", "", "print every latency, in the order of time", cli.Flag(func(o *options) *bool { return &o.unsorted })), isLatency},
	{cli.NewRow('w', "limit_bw", "N", "fail if the average bandwidth is lower, in the unit printed", limit("bandwidth", func(o *options) *float64 { return &o.leastBW })), isBandwidth},
	{cli.NewRow('x', "gid-index", "INDEX", "index of the own GID (default: see below)", cli.Number("GID index", 0, math.MaxUint8, func(o *options) *int { return &o.gid })), nil},
	{cli.NewRow('X', "vector", "N", "with -e: completion vector of the events (default 0)", cli.Number("completion vector", 0, math.MaxUint16, func(o *options) *int { return &o.vector })), func(k Kind) bool { return k.Verb != perftest.Write }},
	{cli.NewRow('y', "limit_msgrate", "N", "fail if the message rate is lower, in Mpps", limit("message rate", func(o *options) *float64 { return &o.leastRate })), isBandwidth},
	{cli.NewRow(0, "disable_pcie_relaxed", "", "taken as perftest's; no memory is relaxed here", func(*options, string) error { return nil }), isBandwidth},
	{cli.NewRow(0, "dlid", "LID", "LID to send to (default: the one that the peer tells)", cli.Number("LID", 1, math.MaxUint16, func(o *options) *int { return &o.dlid })), nil},
	{cli.NewRow(0, "force-link", "TYPE", "IB or Ethernet: fail if the port is of the other", setLink), nil},
	{cli.NewRow(0, "odp", "", "page the memory in on demand", cli.Flag(func(o *options) *bool { return &o.ODP })), nil},
	{cli.NewRow(0, "report_gbits", "", "bandwidth in Gb/sec instead of MB/sec", cli.Flag(func(o *options) *bool { return &o.Gbits })), isBandwidth},
	{cli.NewRow(0, "perform_warm_up", "", "send a queue full before measuring", cli.Flag(func(o *options) *bool { return &o.WarmUp })), func(k Kind) bool { return !k.Latency && k.Verb != perftest.Send }},
	{cli.NewRow(0, "pkey_index", "INDEX", "index of the port's P_Key (default 0)", cli.Number("P_Key index", 0, math.MaxUint16, func(o *options) *int { return &o.pkeyIndex })), nil},
	{cli.NewRow(0, "retry_count", "N", "with -R: how often a message is sent again (default 7)", cli.Number("number of retries", 0, 7, func(o *options) *int { return &o.retryCount })), nil},
	{cli.NewRow(0, "use_old_post_send", "", "taken as perftest's; there is one way to post", func(*options, string) error { return nil }), nil},
	{cli.NewRow(0, "wait_destroy", "SECONDS", "wait at the end, before all is closed", cli.Number("time to wait in seconds", 0, math.MaxInt32, func(o *options) *int { return &o.waitDestroy })), isBandwidth},
}
