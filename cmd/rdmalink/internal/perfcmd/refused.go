package perfcmd

import (
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/perftest"
)

// refusal is options of perftest that are not taken, and why.
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
	whyAES    = "encryption is an interface of mlx5's own: measure it with perftest"
	whyDC     = "dynamic connections are mlx5's own: leave it out, and give -c RC"
	whyMcast  = "a run is between two ends: measure multicast with perftest at both"
	whyPorts  = "a run uses one port: start one for each, with -i, and -p of its own"
	whyOutput = "give -j, which prints JSON to standard output, and > FILE"
	whyMmap   = "the memory is the program's own: leave it out here, the other end may have it"
)

// refused lists perftest's options that table does not have.
var refused = []refusal{
	{'C', "report-cycles", false, "latencies are in microseconds: multiply by the MHz of the CPU", isLatency},
	{'g', "mcg", false, whyMcast, verbsOf(perftest.Send)},
	{'M', "MGID", true, whyMcast, verbsOf(perftest.Send)},
	{'O', "dualport", false, whyPorts, isBandwidth},
	{'T', "tos", true, "rdma_cm takes the type of service from its configuration: set default_roce_tos of the device in configfs, below /sys/kernel/config/rdma_cm", nil},
	{'V', "version", false, "it is for rdmalink itself, not for perf: rdmalink -V", nil},
	{'W', "report-counters", true, "compare the output of rdmalink statistic show before and after", nil},
	{'z', "com_rdma_cm", false, "leave it out at both ends, which then exchange data over TCP, or give both -R", nil},
	{0, "aes_block_size", true, whyAES, nil},
	{0, "aes_xts", false, whyAES, nil},
	{0, "burst_size", true, whyRate, isBandwidth},
	{0, "cpu_util", false, "give -D, and have time(1) or mpstat(1) say what the CPU did meanwhile", nil},
	{0, "credentials_path", true, whyAES, nil},
	{0, "data_enc_key_app_path", true, whyAES, nil},
	{0, "data_enc_keys_number", true, whyAES, nil},
	{0, "dont_xchg_versions", false, "both ends need what they say there: leave it out at both", nil},
	{0, "encrypt_on_tx", false, whyAES, nil},
	{0, "inline_recv", true, "the drivers have no inline receives: leave it out here, the other end may have it", nil},
	{0, "ipv6", false, "give HOST as an IPv6 address, or the index of an IPv6 GID with -x", nil},
	{0, "kek_path", true, whyAES, nil},
	{0, "latency_gap", true, "a message is sent when the one before has completed: leave it out", isLatency},
	{0, "log_active_dci_streams", true, whyDC, nil},
	{0, "log_dci_streams", true, whyDC, nil},
	{0, "mmap", true, whyMmap, nil},
	{0, "mmap-offset", true, whyMmap, nil},
	{0, "mr_per_qp", false, "one region has the parts of all QPs: leave it out here, the other end may have it", isBandwidth},
	{0, "out_json", false, whyOutput, nil},
	{0, "out_json_file", true, whyOutput, nil},
	{0, "output", true, "give -j, and jq(1) the figure to print", nil},
	{0, "perform_warm_up", false, "only the bandwidth of WRITE, READ and atomics is warmed up to: leave it out", func(k Kind) bool { return k.Latency || k.Verb == perftest.Send }},
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
	{0, "use-srq", false, "each QP has receives of its own; rdmalink pingpong srq has shared ones", func(k Kind) bool { return k.Verb != perftest.Write }},
	{0, "use_hugepages", false, "have the kernel use them: echo always > /sys/kernel/mm/transparent_hugepage/enabled", nil},
}

// row is for the parser, and for no help.
func (r *refusal) row() *option {
	o := &option{Letter: r.letter, Long: r.long}
	if r.takesValue {
		o.Value = strings.ToUpper(r.long)
	}
	o.Set = func(*options, string) error { return cli.UsageError{Text: o.Name() + ": " + r.why} }
	return o
}
