package perfcmd

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

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

// verbsOf reports whether a test is one of these verbs.
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
	{cli.NewRow('a', "all", "", "measure all sizes from 2 bytes to 8 MiB (datagrams: up to the MTU)", cli.Flag(func(o *options) *bool { return &o.AllSizes })), verbsOf(perftest.Send, perftest.Write, perftest.Read)},
	{cli.NewRow('A', "atomic_type", "TYPE", "operation: FETCH_AND_ADD (default) or CMP_AND_SWAP", setAtomic), verbsOf(perftest.Atomic)},
	{cli.NewRow('b', "bidirectional", "", "measure both directions at once", cli.Flag(func(o *options) *bool { return &o.Bidirectional })), isBandwidth},
	{cli.NewRow('c', "connection", "TYPE", "QP type: RC (default), UC for SEND and WRITE, UD for SEND, SRD of EFA, DC of mlx5", setConnection), nil},
	{cli.NewRow('d', "ib-dev", "DEV", "RDMA device (default: the first suitable one)", func(o *options, v string) error { o.device = v; return nil }), nil},
	{cli.NewRow('D', "duration", "SECONDS", "run for SECONDS instead of a number of messages; see -f", cli.Number("duration in seconds", 1, math.MaxInt32, func(o *options) *int { return &o.duration })), nil},
	{cli.NewRow('e', "events", "", "sleep until a completion event (default: poll)", cli.Flag(func(o *options) *bool { return &o.Events })), func(k Kind) bool { return k != Kind{perftest.Write, true} }},
	{cli.NewRow('f', "margin", "SECONDS", "with -D: time at either end that is not measured (default: a quarter of -D)", cli.Number("margin in seconds", 1, math.MaxInt32, func(o *options) *int { return &o.margin })), nil},
	{cli.NewRow('F', "CPU-freq", "", "accepted for compatibility with perftest; has no effect", func(*options, string) error { return nil }), nil},
	{cli.NewRow('H', "report-histogram", "", "print all latencies, the shortest first", cli.Flag(func(o *options) *bool { return &o.sorted })), isLatency},
	{cli.NewRow('i', "ib-port", "PORT", "port of the device (default 1)", cli.Number("device port", 1, math.MaxUint8, func(o *options) *int { return &o.ibPort })), nil},
	{cli.NewRow('I', "inline_size", "BYTES", "send messages of up to BYTES inline (default 0)", cli.Number("size of inline data", 0, 912, func(o *options) *int { return &o.Inline })), verbsOf(perftest.Send, perftest.Write)},
	{cli.NewRow('j', "json", "", "print the result as one line of JSON", cli.Flag(func(o *options) *bool { return &o.asJSON })), nil},
	{cli.NewRow('l', "post_list", "N", "number of work requests in each post (default 1)", cli.Number("length of a list", 1, 15000, func(o *options) *int { return &o.PostList })), isBandwidth},
	{cli.NewRow('L', "hop_limit", "N", "hop limit (default 64); RoCE uses that of the kernel's route", cli.Number("hop limit", 1, math.MaxUint8, func(o *options) *int { return &o.hopLimit })), nil},
	{cli.NewRow('m', "mtu", "BYTES", "path MTU, 256 to 4096 (default: the port's); the smaller one of both ends is used", cli.MTU(func(o *options) *verbs.MTU { return &o.MTU })), nil},
	{cli.NewRow('n', "iters", "N", "number of messages of each QP, at least 5 (default 1000, write bw 5000)", cli.Number("number of messages", 5, 100000000, func(o *options) *int { return &o.Iters })), nil},
	{cli.NewRow('N', "noPeak", "", "don't measure the peak bandwidth", cli.Flag(func(o *options) *bool { return &o.NoPeak })), isBandwidth},
	{cli.NewRow('o', "outs", "N", "number of READs or atomics in flight (default: the device's maximum)", cli.Number("number of outstanding reads", 1, math.MaxUint8, func(o *options) *int { return &o.OutReads })), verbsOf(perftest.Read, perftest.Atomic)},
	{cli.NewRow('p', "port", "PORT", "port to listen on or connect to (default 18515)", cli.Number("port", 1, math.MaxUint16, func(o *options) *int { return &o.tcpPort })), nil},
	{cli.NewRow('q', "qp", "N", "number of QPs (default 1)", cli.Number("number of QPs", 1, 16384, func(o *options) *int { return &o.QPCount })), isBandwidth},
	{cli.NewRow('Q', "cq-mod", "N", "request a completion for every Nth message (default 100; 1 beyond 8192 bytes, and on EFA)", cli.Number("number of messages to a completion", 1, 1024, func(o *options) *int { return &o.CQMod })), isBandwidth},
	{cli.NewRow('r', "rx-depth", "N", "number of posted receives (default 512; UC and UD: up to 16000)", cli.Number("number of receives", 1, 16384, func(o *options) *int { return &o.RxDepth })), verbsOf(perftest.Send)},
	{cli.NewRow('R', "rdma_cm", "", "connect with rdma_cm; HOST is an address of the server's RDMA device", cli.Flag(func(o *options) *bool { return &o.CM })), nil},
	{cli.NewRow('s', "size", "BYTES", "message size, with K or M if desired (default: lat 2, bw 65536; UD and SRD: up to the device's limit)", setSize), verbsOf(perftest.Send, perftest.Write, perftest.Read)},
	{cli.NewRow('S', "sl", "SL", "service level (default 0)", cli.Number("service level", 0, 15, func(o *options) *int { return &o.sl })), nil},
	{cli.NewRow(0, "source_ip", "ADDR", "with -R: the local address to connect from or to listen on", func(o *options, v string) error { o.source = v; return nil }), nil},
	{cli.NewRow(0, "bind_source_ip", "ADDR", "the same as --source_ip", func(o *options, v string) error { o.source = v; return nil }), nil},
	{cli.NewRow(0, "ipv6-addr", "", "accepted for compatibility with perftest; HOST may always be an IPv6 address", func(*options, string) error { return nil }), nil},
	{cli.NewRow(0, "tclass", "N", "traffic class (default 0)", cli.Number("traffic class", 0, math.MaxUint8, func(o *options) *int { return &o.tclass })), nil},
	{cli.NewRow('t', "tx-depth", "N", "number of outstanding sends (default 128)", cli.Number("number of sends", 1, 15000, func(o *options) *int { return &o.TxDepth })), isBandwidth},
	{cli.NewRow('u', "qp-timeout", "N", "time to wait for an acknowledgement, 4.096 us * 2^N (default 14)", cli.Number("timeout", 1, 31, func(o *options) *int { return &o.qpTimeout })), nil},
	{cli.NewRow('U', "report-unsorted", "", "print all latencies, in the order of the messages", cli.Flag(func(o *options) *bool { return &o.unsorted })), isLatency},
	{cli.NewRow('w', "limit_bw", "N", "fail if the average bandwidth is below N, in the printed unit", limit("bandwidth", func(o *options) *float64 { return &o.leastBW })), isBandwidth},
	{cli.NewRow('x', "gid-index", "INDEX", "index of this end's GID (default: see below)", cli.Number("GID index", 0, math.MaxUint8, func(o *options) *int { return &o.gid })), nil},
	{cli.NewRow('X', "vector", "N", "with -e: completion vector of the events (default 0)", cli.Number("completion vector", 0, math.MaxUint16, func(o *options) *int { return &o.vector })), func(k Kind) bool { return k.Verb != perftest.Write }},
	{cli.NewRow('y', "limit_msgrate", "N", "fail if the message rate is below N Mpps", limit("message rate", func(o *options) *float64 { return &o.leastRate })), isBandwidth},
	{cli.NewRow(0, "disable_pcie_relaxed", "", "accepted for compatibility with perftest; has no effect", func(*options, string) error { return nil }), isBandwidth},
	{cli.NewRow(0, "dlid", "LID", "LID to send to (default: the peer's)", cli.Number("LID", 1, math.MaxUint16, func(o *options) *int { return &o.dlid })), nil},
	{cli.NewRow(0, "force-link", "TYPE", "required link layer of the port: IB or Ethernet", setLink), nil},
	{cli.NewRow(0, "log_active_dci_streams", "N", "with -c DC: messages use 2^N streams in turn (default: all)", streams(func(o *options) *int { return &o.ActiveStreams })), nil},
	{cli.NewRow(0, "log_dci_streams", "N", "with -c DC: initiators have 2^N streams (default: none)", streams(func(o *options) *int { return &o.Streams })), nil},
	{cli.NewRow(0, "odp", "", "register the memory with on-demand paging", cli.Flag(func(o *options) *bool { return &o.ODP })), nil},
	{cli.NewRow(0, "report_gbits", "", "print the bandwidth in Gb/sec instead of MB/sec", cli.Flag(func(o *options) *bool { return &o.Gbits })), isBandwidth},
	{cli.NewRow(0, "perform_warm_up", "", "fill the send queue once before measuring", cli.Flag(func(o *options) *bool { return &o.WarmUp })), func(k Kind) bool { return !k.Latency && k.Verb != perftest.Send }},
	{cli.NewRow(0, "pkey_index", "INDEX", "index of the port's P_Key (default 0)", cli.Number("P_Key index", 0, math.MaxUint16, func(o *options) *int { return &o.pkeyIndex })), nil},
	{cli.NewRow(0, "retry_count", "N", "with -R: number of retransmissions of a message (default 7)", cli.Number("number of retries", 0, 7, func(o *options) *int { return &o.retryCount })), nil},
	{cli.NewRow(0, "use_old_post_send", "", "accepted for compatibility with perftest; has no effect", func(*options, string) error { return nil }), nil},
	{cli.NewRow(0, "wait_destroy", "SECONDS", "wait for SECONDS at the end, before the objects are destroyed", cli.Number("time to wait in seconds", 0, math.MaxInt32, func(o *options) *int { return &o.waitDestroy })), isBandwidth},
}

func parse(k Kind, args []string) (options, error) {
	o := options{tcpPort: 18515, ibPort: 1, gid: -1, given: make(map[string]bool)}
	o.Verb, o.Latency = k.Verb, k.Latency
	if err := k.parser().Parse(&o, args, o.setHost); err != nil {
		return o, err
	}
	o.complete()
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
	if why := o.conflict(); why != "" {
		return cli.UsageError{Text: why}
	}
	return nil
}

func (o *options) conflict() string {
	both := func(a, b string) bool { return o.given[a] && o.given[b] }
	switch {
	case both("duration", "iters"):
		return "-D and -n: give either a duration or a number of messages"
	case both("duration", "all"):
		return "-D and -a: with -D only one size is measured"
	case both("size", "all"):
		return "-s and -a: give either one size or all"
	case both("report-histogram", "report-unsorted"):
		return "-H and -U: give only one of them"
	case o.given["duration"] && (o.sorted || o.unsorted):
		return "-H and -U need -n: with -D, single messages are not timed"
	case o.given["margin"] && 2*o.margin >= o.duration:
		return "-f: twice the margin must be less than -D"
	case o.given["vector"] && !o.Events:
		return "-X needs -e"
	case o.Type == verbs.QPTypeUD && o.Verb != perftest.Send:
		return "-c UD: datagrams support SEND only"
	case o.Type == verbs.QPTypeSRD && o.Verb == perftest.Atomic:
		return "-c SRD: only RC supports atomics"
	case o.Type == verbs.QPTypeSRD && o.Verb == perftest.Write && o.Latency:
		return "-c SRD: it fills memory in any order, so the last byte does not tell that the others are there; give write bw, or send lat"
	case o.Type != verbs.QPTypeDCI && (o.Streams > 0 || o.ActiveStreams > 0):
		return "only -c DC has streams"
	case o.Streams == 0 && o.ActiveStreams > 0:
		return "--log_active_dci_streams needs --log_dci_streams"
	case o.Type == verbs.QPTypeUC && (o.Verb == perftest.Read || o.Verb == perftest.Atomic):
		return "-c UC: only RC supports READ and atomics"
	}
	if why := o.cmConflict(); why != "" {
		return why
	}
	return o.listConflict()
}

// cmConflict returns the conflict between -R and other options, or "".
func (o *options) cmConflict() string {
	if !o.CM {
		for _, name := range []string{"source_ip", "bind_source_ip", "retry_count"} {
			if o.given[name] {
				return "--" + name + " needs -R"
			}
		}
		return ""
	}
	if o.Type == verbs.QPTypeUC || o.Type == verbs.QPTypeSRD || o.Type == verbs.QPTypeDCI {
		return fmt.Sprintf("-R and -c %s: rdma_cm connects RC and UD only", perf.TypeName(o.Type))
	}
	for _, row := range table {
		switch row.Long {
		case "gid-index", "sl", "tclass", "qp-timeout", "mtu", "ib-port", "hop_limit", "pkey_index", "dlid":
			if o.given[row.Long] {
				return fmt.Sprintf("%s and -R: rdma_cm decides that", row.Name())
			}
		}
	}
	return ""
}

func (o *options) listConflict() string {
	full := perf.Completed(o.Options)
	switch list := full.PostList; {
	case list > full.TxDepth:
		return fmt.Sprintf("-l %d: longer than the send queue, -t %d", list, full.TxDepth)
	case !o.given["duration"] && full.Iters%list != 0 && list > 1:
		return fmt.Sprintf("-n %d is not a multiple of -l %d", full.Iters, list)
	case list > 1 && list%full.CQMod != 0:
		return fmt.Sprintf("-l %d is not a multiple of -Q %d", list, full.CQMod)
	}
	return ""
}

// refusal is an option of perftest that perf does not support, with the reason.
type refusal struct {
	letter     byte
	long       string
	takesValue bool
	why        string // the reason, and the alternative
	has        func(Kind) bool
}

// Reasons of several options.
const (
	whyRate   = "messages are sent as fast as the queue takes them: limit the rate of the network device with tc"
	whyAES    = "encryption is specific to mlx5: measure it with perftest"
	whyMcast  = "a run has two ends: measure multicast with perftest at both"
	whyPorts  = "a run uses one port: start one for each, with -i, and -p of its own"
	whyOutput = "give -j, which prints JSON to standard output, and > FILE"
	whyGPU    = "the memory is the machine's own: measure that of accelerators with perftest at both ends"
	whyRaw    = "raw Ethernet is no test of perf: use perftest's raw_ethernet programs at both ends"
	whyImm    = "perf measures operations without immediate data: leave it out at both ends"
	whyTPH    = "the hints for the PCIe bus are left to the kernel: leave it out here; the other end may use it"
	whyCheck  = "perf measures and does not compare: rdmalink doctor --selftest compares the data of each operation"
	whyPin    = "start it under taskset(1) or numactl(8)"
	whyMmap   = "rdmalink allocates the memory itself: leave it out here; the other end may use it"
)

// refused lists perftest's options that table does not have.
var refused = []refusal{
	{'C', "report-cycles", false, "latencies are in microseconds: multiply by the MHz of the CPU", isLatency},
	{'g', "mcg", false, whyMcast, verbsOf(perftest.Send)},
	{'M', "MGID", true, whyMcast, verbsOf(perftest.Send)},
	{'O', "dualport", false, whyPorts, isBandwidth},
	{'T', "tos", true, "rdma_cm takes the type of service from its configuration: set default_roce_tos of the device in configfs, below /sys/kernel/config/rdma_cm", nil},
	{'V', "version", false, "it is an option of rdmalink, not of perf: rdmalink -V", nil},
	{'W', "report-counters", true, "compare the output of rdmalink statistic show before and after", nil},
	{'z', "com_rdma_cm", false, "leave it out at both ends, which then exchange data over TCP, or give both -R", nil},
	{0, "aes_block_size", true, whyAES, nil},
	{0, "aes_xts", false, whyAES, nil},
	{0, "burst_size", true, whyRate, isBandwidth},
	{0, "cpu_util", false, "give -D, and measure the CPU with time(1) or mpstat(1)", nil},
	{0, "credentials_path", true, whyAES, nil},
	{0, "data_enc_key_app_path", true, whyAES, nil},
	{0, "data_enc_keys_number", true, whyAES, nil},
	{0, "dont_xchg_versions", false, "both ends need the exchange: leave it out at both", nil},
	{0, "encrypt_on_tx", false, whyAES, nil},
	{0, "inline_recv", true, "the drivers have no inline receives: leave it out here; the other end may use it", nil},
	{0, "ipv6", false, "give HOST as an IPv6 address, or the index of an IPv6 GID with -x", nil},
	{0, "kek_path", true, whyAES, nil},
	{0, "latency_gap", true, "a message is sent when the one before has completed: leave it out", isLatency},
	{0, "mmap", true, whyMmap, nil},
	{0, "mmap-offset", true, whyMmap, nil},
	{0, "mr_per_qp", false, "one region holds the buffers of all QPs: leave it out here; the other end may use it", isBandwidth},
	{0, "out_json", false, whyOutput, nil},
	{0, "out_json_file", true, whyOutput, nil},
	{0, "output", true, "give -j, and jq(1) the figure to print", nil},
	{0, "perform_warm_up", false, "only the bandwidth tests of WRITE, READ and atomics have a warm-up: leave it out", func(k Kind) bool { return k.Latency || k.Verb == perftest.Send }},
	{0, "rate_limit", true, whyRate, isBandwidth},
	{0, "rate_limit_type", true, whyRate, isBandwidth},
	{0, "rate_units", true, whyRate, isBandwidth},
	{0, "recv_post_list", true, "receives are always posted in lists: leave it out", isBandwidth},
	{0, "report-both", false, "-b prints the sum of both directions: for one of them run without -b", isBandwidth},
	{0, "report-per-port", false, whyPorts, isBandwidth},
	{0, "reversed", false, "start the server where the client is, and the client here", isBandwidth},
	{0, "run_infinitely", false, "repeat runs with -D in a loop of the shell, at both ends", isBandwidth},
	{0, "sig_before", false, whyAES, nil},
	{0, "typical_pkt_size", true, whyRate, isBandwidth},
	{0, "use-srq", false, "each QP has its own receive queue; rdmalink pingpong srq has a shared one", func(k Kind) bool { return k.Verb != perftest.Write }},
	{0, "use_hugepages", false, "let the kernel use them: echo always > /sys/kernel/mm/transparent_hugepage/enabled", nil},

	// of perftest 6.29
	{0, "comm_rdma_cm", false, "leave it out at both ends, which then exchange data over TCP, or give both -R", nil},
	{0, "congest_type", true, "the device's own settings decide the congestion control: leave it out here; the other end may use it", nil},
	{0, "connectionless", false, whyMcast, verbsOf(perftest.Send)},
	{0, "cpu_id", true, whyTPH, nil},
	{0, "cuda_mem_type", true, whyGPU, nil},
	{0, "gpu_touch", true, whyGPU, nil},
	{0, "opencl_platform_id", true, whyGPU, nil},
	{0, "use_cuda", true, whyGPU, nil},
	{0, "use_cuda_bus_id", true, whyGPU, nil},
	{0, "use_cuda_dmabuf", false, whyGPU, nil},
	{0, "use_cuda_pcie_mapping", false, whyGPU, nil},
	{0, "use_data_direct", false, whyGPU, nil},
	{0, "use_hl", true, whyGPU, nil},
	{0, "use_ib_dm_dmabuf", true, whyGPU, nil},
	{0, "use_mlu", true, whyGPU, nil},
	{0, "use_mlu_dmabuf", false, whyGPU, nil},
	{0, "use_musa", true, whyGPU, nil},
	{0, "use_musa_bus_id", true, whyGPU, nil},
	{0, "use_musa_dmabuf", false, whyGPU, nil},
	{0, "use_musa_pcie_mapping", false, whyGPU, nil},
	{0, "use_neuron", true, whyGPU, nil},
	{0, "use_neuron_dmabuf", false, whyGPU, nil},
	{0, "use_opencl", true, whyGPU, nil},
	{0, "use_rocm", true, whyGPU, nil},
	{0, "use_rocm_dmabuf", false, whyGPU, nil},
	{0, "cqe_poll", true, "as many completions are polled at once as a queue can have: leave it out here; the other end may use it", nil},
	{0, "data_validation", false, whyCheck, nil},
	{0, "data_validation_debug", false, whyCheck, nil},
	{0, "disable_dynamic_polling", false, "polling does not adapt: leave it out here; the other end may use it", nil},
	{0, "disable_numa", false, whyPin, nil},
	{0, "numa_node", true, whyPin, nil},
	{0, "pin_cores", true, whyPin, nil},
	{0, "dest_ip", true, whyRaw, nil},
	{0, "dest_mac", true, whyRaw, nil},
	{0, "dest_port", true, whyRaw, nil},
	{0, "ethertype", true, whyRaw, nil},
	{0, "flows", true, whyRaw, nil},
	{0, "flows_burst", true, whyRaw, nil},
	{0, "client", false, whyRaw, nil},
	{0, "local_ip", true, whyRaw, nil},
	{0, "local_mac", true, whyRaw, nil},
	{0, "local_port", true, whyRaw, nil},
	{0, "remote_ip", true, whyRaw, nil},
	{0, "remote_mac", true, whyRaw, nil},
	{0, "remote_port", true, whyRaw, nil},
	{0, "server", false, whyRaw, nil},
	{0, "mac_fwd", false, whyRaw, nil},
	{0, "promiscuous", false, whyRaw, nil},
	{0, "raw_ipv6", false, whyRaw, nil},
	{0, "raw_mcast", false, whyRaw, nil},
	{0, "reply_every", true, whyRaw, nil},
	{0, "sniffer", false, whyRaw, nil},
	{0, "source_mac", true, whyRaw, nil},
	{0, "source_port", true, whyRaw, nil},
	{0, "tcp", false, whyRaw, nil},
	{0, "use_rss", false, whyRaw, nil},
	{0, "vlan_en", false, whyRaw, nil},
	{0, "vlan_pcp", true, whyRaw, nil},
	{0, "flow_label", true, "the flow label is 0 or, with -R, rdma_cm's: leave it out here; the other end may use it", nil},
	{0, "no_enhanced_reorder", false, "receives are taken in order already: leave it out here; the other end may use it", nil},
	{0, "no_lock", false, "queues are locked as in every program of Go: leave it out here; the other end may use it", nil},
	{0, "payload_file_path", true, "what is sent does not change the speed of a device: leave it out here; the other end may use it", nil},
	{0, "ph", true, whyTPH, nil},
	{0, "tph_mem", true, whyTPH, nil},
	{0, "report-histogrm", false, "perftest's misspelling: give -H or --report-histogram", isLatency},
	{0, "send_with_imm", false, whyImm, verbsOf(perftest.Send)},
	{0, "sig_offload", false, whyAES, nil},
	{0, "unsolicited_write", false, whyImm, verbsOf(perftest.Write)},
	{0, "use-null-mr", false, "a region without memory has nothing to compare: leave it out here; the other end may use it", nil},
	{0, "use_ooo", false, "the order of packets is left to the device: leave it out at both ends", nil},
	{0, "write_with_imm", false, whyImm, verbsOf(perftest.Write)},
}

// row returns the row for the parser. The help does not list it.
func (r *refusal) row() *option {
	o := &option{Letter: r.letter, Long: r.long}
	if r.takesValue {
		o.Value = strings.ToUpper(r.long)
	}
	o.Set = func(*options, string) error { return cli.UsageError{Text: o.Name() + ": " + r.why} }
	return o
}

// options returns the rows that apply to the kind. Each records that it was given.
func (k Kind) options() (all cli.Getopt[options]) {
	for _, row := range table {
		if row.has != nil && !row.has(k) {
			continue
		}
		o := row.option
		o.Set = func(to *options, value string) error {
			to.given[o.Long] = true
			return row.Set(to, value)
		}
		all = append(all, &o)
	}
	return all
}

// parser returns the rows of options and those of perftest's refused options.
func (k Kind) parser() cli.Getopt[options] {
	all := k.options()
	for _, row := range refused {
		if row.has == nil || row.has(k) {
			all = append(all, row.row())
		}
	}
	return all
}

func setAtomic(o *options, value string) error {
	switch value {
	case "FETCH_AND_ADD":
		o.Atomic = verbs.OpFetchAdd
	case "CMP_AND_SWAP":
		o.Atomic = verbs.OpCompareSwap
	default:
		return cli.Expected(value, "FETCH_AND_ADD", "CMP_AND_SWAP")
	}
	return nil
}

func setConnection(o *options, value string) error {
	types := map[string]verbs.QPType{"RC": verbs.QPTypeRC, "UC": verbs.QPTypeUC, "UD": verbs.QPTypeUD, "SRD": verbs.QPTypeSRD, "DC": verbs.QPTypeDCI}
	typ, ok := types[value]
	if !ok {
		return cli.Expected(value, "RC", "UC", "UD", "SRD", "DC")
	}
	o.Type = typ
	return nil
}

func setSize(o *options, value string) error {
	text, factor := value, 1
	for suffix, f := range map[string]int{"K": 1 << 10, "M": 1 << 20} {
		if cut, ok := strings.CutSuffix(value, suffix); ok {
			text, factor = cut, f
		}
	}
	n, err := strconv.ParseInt(text, 0, 32)
	if err != nil || n < 1 || n > math.MaxInt32/int64(factor) {
		return cli.UsageError{Text: strconv.Quote(value) + ": the size must be a number from 1 to 2147483647, or one followed by K or M"}
	}
	o.Size = int(n) * factor
	return nil
}

// streams parses the logarithm of a number of streams.
func streams(field func(*options) *int) func(*options, string) error {
	set := cli.Number("logarithm of a number of streams", 1, 16, field)
	return func(o *options, value string) error {
		err := set(o, value)
		*field(o) = 1 << *field(o)
		return err
	}
}

func setLink(o *options, value string) error {
	switch value {
	case "IB":
		o.Link = verbs.LinkInfiniBand
	case "Ethernet":
		o.Link = verbs.LinkEthernet
	default:
		return cli.Expected(value, "IB", "Ethernet")
	}
	return nil
}

// limit parses the lower limit of a result.
func limit(what string, field func(*options) *float64) func(*options, string) error {
	return func(o *options, value string) error {
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || !(n > 0 && n <= math.MaxFloat32) {
			return cli.UsageError{Text: strconv.Quote(value) + ": the " + what + " must be a number above 0"}
		}
		*field(o) = n
		return nil
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// complete converts values that the engine takes in another type.
func (o *options) complete() {
	o.Role = perftest.Client
	if o.host == "" {
		o.Role = perftest.Server
	}
	o.Port, o.SL, o.TrafficClass, o.QPTimeout = o.ibPort, uint8(o.sl), uint8(o.tclass), uint8(o.qpTimeout)
	o.HopLimit, o.PKeyIndex, o.DLID, o.CompVector = uint8(o.hopLimit), uint32(o.pkeyIndex), uint16(o.dlid), uint32(o.vector)
	o.Time, o.Margin, o.WaitDestroy = seconds(o.duration), seconds(o.margin), seconds(o.waitDestroy)
	if o.RetryCount = o.retryCount; o.given["retry_count"] && o.retryCount == 0 {
		o.RetryCount = -1 // none
	}
}
