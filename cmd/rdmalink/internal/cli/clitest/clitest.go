// Package clitest runs command lines of rdmalink on fake machines, for tests.
package clitest

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"strings"
	"testing/fstest"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// Result is the outcome of a command line.
type Result struct {
	Code        int
	Out, Err    string
	NetdevCalls []string
}

// Run runs the words of a line below root.
func Run(t *cli.Tool, root cli.Command, line string, nets *hosttest.Netdevs) Result {
	r := RunWords(t, root, strings.Fields(line))
	r.NetdevCalls = nets.Log
	return r
}

// RunWords runs a command line below root.
func RunWords(t *cli.Tool, root cli.Command, words []string) Result {
	var stdout, stderr bytes.Buffer
	t.Stdout, t.Stderr = &stdout, &stderr
	code := t.Run(context.Background(), root, words)
	return Result{Code: code, Out: stdout.String(), Err: stderr.String()}
}

// Machine returns a tool on hosttest.Machine.
func Machine() (*cli.Tool, *nltest.Kernel, *hosttest.Netdevs) {
	m, kernel, nets := hosttest.Machine()
	return &cli.Tool{Stdin: strings.NewReader(""), Machine: m}, kernel, nets
}

// Informed returns a tool on hosttest.Informed.
func Informed() (*cli.Tool, *nltest.Kernel, *hosttest.Netdevs) {
	m, kernel, nets := hosttest.Informed()
	return &cli.Tool{Stdin: strings.NewReader(""), Machine: m}, kernel, nets
}

func Opt[T any](v T) netlinkrdma.Opt[T] { return netlinkrdma.Opt[T]{Value: v, Known: true} }

// Devices returns a machine with siw0, an InfiniBand device and a sub-device of it.
func Devices() (*cli.Tool, *nltest.Kernel) {
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{
			{Index: 0, Name: "siw0", NodeType: verbs.NodeRNIC, Protocol: "iw", NodeGUID: 0x0200000000000001, SysImageGUID: 2, AdaptiveModeration: Opt(false)},
			{Index: 7, Name: "mlx5_0", Ports: 1, NodeType: verbs.NodeCA, Protocol: "ib", FWVersion: "16.35.4030", NodeGUID: 1, SysImageGUID: 1,
				AdaptiveModeration: Opt(true), CapFlags: 1<<0 | 1<<6 | 1<<16 | 1<<32 | 1<<38 | 1<<63},
			{Index: 9, Name: "smi0", NodeType: 27, Protocol: "ib", NodeGUID: 1, SysImageGUID: 1, Type: netlinkrdma.DeviceSMI, Parent: "mlx5_0"},
		},
		Ports: []netlinkrdma.Port{{DeviceIndex: 7, DeviceName: "mlx5_0", Index: 1, State: verbs.PortInit, PhysState: verbs.PhysPolling,
			NetdevIndex: 5, NetdevName: "ib0", InfiniBand: true, SubnetPrefix: 0xfe80000000000000, LID: 13, SMLID: 1, LMC: 2, CapFlags: 1<<1 | 1<<33 | 1<<40}},
		System: netlinkrdma.System{NetnsMode: netlinkrdma.NetnsShared, CopyOnFork: true, Monitor: true, PrivilegedQKey: Opt(false)},
	}
	return &cli.Tool{Stdin: strings.NewReader(""), Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}}}, kernel
}

// Resources returns a machine with siw0 without objects, and mlx5_0 with some of each kind.
// Process 7 is a reader, 8 is gone.
func Resources() (*cli.Tool, *nltest.Kernel) {
	reader, gone, core := netlinkrdma.Owner{TID: 7}, netlinkrdma.Owner{TID: 8}, netlinkrdma.Owner{Kernel: "ib_core"}
	driver := []netlinkrdma.DriverAttr{
		{Name: "state", Kind: netlinkrdma.DriverString, Text: "u\"p"},
		{Name: "delta", Kind: netlinkrdma.DriverS32, Number: ^uint64(4)},
		{Name: "mask", Kind: netlinkrdma.DriverU32, Hex: true, Number: 0xfffffffe},
		{Name: "address", Kind: netlinkrdma.DriverU64, Hex: true, Number: 0xffff800012345678},
		{Name: "offset", Kind: netlinkrdma.DriverS64, Number: 1 << 63},
		{Name: "last", Kind: netlinkrdma.DriverU64, Number: 1},
	}
	kernel := &nltest.Kernel{
		Devices:   []netlinkrdma.Device{{Index: 0, Name: "siw0", Ports: 1}, {Index: 7, Name: "mlx5_0", Ports: 2}},
		Resources: []netlinkrdma.Resource{{Kind: "pd", Count: 2}, {Kind: "cm_id", Count: 1 << 33}},
	}
	kernel.Objects = map[uint32]nltest.Objects{0: {}, 7: {
		QP: []netlinkrdma.QP{
			{Owner: core, Port: 2, LQPN: 1, Type: 1, State: 3},
			{Owner: core, Port: 1, LQPN: 1, Type: 1, State: 3},
			{Owner: reader, Port: 1, LQPN: 17, Type: 2, State: 3, SQPSN: 5, RQPN: Opt[uint32](18), RQPSN: Opt[uint32](7), PathMigState: Opt[verbs.PathMigState](1), PDN: Opt[uint32](0), Driver: driver},
			{Owner: gone, LQPN: 18, Type: verbs.QPTypeDriver, Subtype: "REG_UMR", State: 0, PDN: Opt[uint32](4)},
			{LQPN: 19, Type: 4, Subtype: "not shown", State: 27},
		},
		CMID: []netlinkrdma.CMID{
			{
				Owner: reader, Port: 1, CMIDN: 3, LQPN: 17, QPType: Opt[verbs.QPType](2), PS: abi.RDMA_PS_TCP, State: 5,
				Src: netlinkrdma.CMAddr{Family: 2, AddrPort: netip.MustParseAddrPort("10.1.1.1:7174")},
				Dst: netlinkrdma.CMAddr{Family: 2, AddrPort: netip.MustParseAddrPort("10.1.1.2:40000")},
			},
			{Owner: core, CMIDN: 4, PS: abi.RDMA_PS_UDP, State: 8, Src: netlinkrdma.CMAddr{Family: 10, AddrPort: netip.MustParseAddrPort("[fd01::1]:7")}},
			{Owner: reader, CMIDN: 5, PS: abi.RDMA_PS_IB, State: 8, Src: netlinkrdma.CMAddr{Family: 17, Raw: []byte{1}}},
		},
		CQ: []netlinkrdma.CQ{
			{Owner: core, CQN: 0, CQE: 255, Users: 2, PollContext: Opt(netlinkrdma.PollUnboundWorkqueue), AdaptiveModeration: Opt(true)},
			{Owner: reader, CQN: 1, CQE: 127, Users: 1 << 40, AdaptiveModeration: Opt(false), CTXN: Opt[uint32](0)},
		},
		MR: []netlinkrdma.MR{
			{Owner: reader, MRN: 1, RKey: Opt[uint32](0x1a2b), LKey: Opt[uint32](0), IOVA: Opt[uint64](1 << 47), Length: 1 << 40, PDN: Opt[uint32](2)},
			{Owner: core, MRN: 2, Length: 4096},
		},
		PD: []netlinkrdma.PD{
			{Owner: core, PDN: 0, LocalDMALKey: Opt[uint32](0x1d6), UnsafeGlobalRKey: Opt[uint32](9), Users: 1},
			{Owner: reader, PDN: 2, Users: 3, CTXN: Opt[uint32](1)},
		},
		Context: []netlinkrdma.Context{{Owner: reader, CTXN: 0}, {CTXN: 1}},
		SRQ: []netlinkrdma.SRQ{
			{Owner: reader, SRQN: 4, Type: 1, PDN: Opt[uint32](2), CQN: Opt[uint32](1), LQPN: []netlinkrdma.QPRange{{First: 17, Last: 17}, {First: 19, Last: 30}}},
			{Owner: core, SRQN: 5},
		},
	}}
	proc := fstest.MapFS{"7/comm": {Data: []byte("a reader\n")}}
	return &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}, Proc: host.Tree{FS: proc}}}, kernel
}

// Statistics returns a machine with siw0, which has no counters, and mlx5_0, which has
// all kinds. Process pid owns a counter.
func Statistics(pid uint32) (*cli.Tool, *nltest.Kernel) {
	count := func(values ...uint64) []netlinkrdma.Counter {
		names := []string{"rx_write_requests", "out_of_buffer", "cc_rx_ce_pkts"}
		var list []netlinkrdma.Counter
		for i, v := range values {
			list = append(list, netlinkrdma.Counter{Name: names[i], Value: v})
		}
		return list
	}
	qps := func(list ...uint32) (all []netlinkrdma.QPRange) {
		for _, q := range list {
			all = append(all, netlinkrdma.QPRange{First: q, Last: q})
		}
		return all
	}
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{{Index: 0, Name: "siw0", Ports: 1}, {Index: 7, Name: "mlx5_0", Ports: 2}},
		Statistics: map[nltest.PortID]nltest.Statistics{
			{Device: 7, Port: 1}: {
				Counters: count(1<<63, 0, 3),
				Status: []netlinkrdma.CounterStatus{
					{Name: "rx_write_requests", Enabled: true}, {Name: "cc_rx_ce_pkts", Index: 4, Optional: true, Enabled: true},
					{Name: "cc_tx_cnp_pkts", Index: 5, Optional: true}, {Name: "cc_rx_cnp_pkts", Index: 6, Optional: true, Enabled: true},
				},
				Setting: netlinkrdma.CounterSetting{Mode: netlinkrdma.CountersAuto, By: netlinkrdma.CountByType | netlinkrdma.CountByPID, Optional: Opt(true)},
			},
			{Device: 7, Port: 2}: {Counters: count(5), Status: []netlinkrdma.CounterStatus{{Name: "rx_write_requests", Enabled: true}}},
		},
		Objects: map[uint32]nltest.Objects{0: {}, 7: {
			QP: []netlinkrdma.QP{{LQPN: 17, Port: 2, Type: 2}, {LQPN: 19, Port: 2, Type: 2}},
			QPCounter: []netlinkrdma.QPCounter{
				{ID: 3, Port: 2, Mode: netlinkrdma.CountersManual, LQPN: qps(178), Counters: count(7, 8)},
				{Owner: netlinkrdma.Owner{TID: pid}, ID: 4, Port: 1, Mode: netlinkrdma.CountersAuto, QPType: Opt[verbs.QPType](2), LQPN: qps(17, 18), Counters: count(9, 1<<40)},
				{Owner: netlinkrdma.Owner{TID: GonePID}, ID: 5, Port: 1, Mode: netlinkrdma.CountersAuto, LQPN: qps(1 << 23), Counters: count()},
				{ID: 6, Port: 1, Mode: netlinkrdma.CountersManual, Counters: count(1)},
			},
			MRCounters: []netlinkrdma.MRCounters{{MRN: 1, Counters: count(6, 5)}, {MRN: 2}},
		}},
	}
	return &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}, Proc: host.Tree{FS: os.DirFS("/proc")}}}, kernel
}

// StatisticsOfReader returns Statistics with process 7, whose name is "a reader".
func StatisticsOfReader() (*cli.Tool, *nltest.Kernel) {
	t, kernel := Statistics(7)
	t.Proc = hosttest.Tree(map[string]string{"7/comm": "a reader"})
	return t, kernel
}

// GonePID is the ID of no process: it is larger than any.
const GonePID = 1<<22 + 1
