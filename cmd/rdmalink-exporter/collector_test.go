package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func opt[T any](v T) netlinkrdma.Opt[T] { return netlinkrdma.Opt[T]{Value: v, Known: true} }

const podPath = "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0001_0002_0003_0a1b2c3d4e5f.slice/cri-containerd-"

var container = strings.Repeat("ab", 32)

// machine returns a machine with two devices. mlx5_0 has counters, objects of the kernel, and objects
// of process 7, which belongs to a pod and whose thread 9 has ended. siw0 has no counters.
func machine() (*metrics.Collector, *nltest.Kernel) {
	pod := netlinkrdma.Owner{TID: 7}
	kernel := &nltest.Kernel{
		Devices: []netlinkrdma.Device{
			{Index: 1, Name: "mlx5_0", Ports: 1, Protocol: "roce", NodeType: verbs.NodeCA, FWVersion: "16.35.4030", NodeGUID: 0x0200000000000001},
			{Index: 2, Name: "siw0", Ports: 1, Protocol: "iw", NodeType: verbs.NodeRNIC},
		},
		Ports: []netlinkrdma.Port{
			{DeviceIndex: 1, DeviceName: "mlx5_0", Index: 1, State: verbs.PortActive, PhysState: verbs.PhysLinkUp, NetdevIndex: 3, NetdevName: "eth0"},
			{DeviceIndex: 2, DeviceName: "siw0", Index: 1, State: verbs.PortDown, PhysState: verbs.PhysDisabled},
		},
		CharDevs:  map[uint32]netlinkrdma.CharDev{1: {Name: "uverbs0", DriverID: uint32(verbs.DriverMLX5)}},
		Resources: []netlinkrdma.Resource{{Kind: "qp", Count: 3}, {Kind: "mr", Count: 1}},
		Statistics: map[nltest.PortID]nltest.Statistics{{Device: 1, Port: 1}: {
			Counters: []netlinkrdma.Counter{{Name: "np_cnp_sent", Value: 5}, {Name: "roce_slow_restart", Value: 2}, {Name: "cc_rx_cnp_pkts", Value: 4}, {Name: "cc_tx_cnp_pkts", Value: 6}},
			Status: []netlinkrdma.CounterStatus{{Name: "np_cnp_sent", Enabled: true}, {Name: "cc_rx_cnp_pkts", Index: 1, Optional: true, Enabled: true},
				{Name: "cc_tx_cnp_pkts", Index: 2, Optional: true, Enabled: true}, {Name: "cc_rx_ce_pkts", Index: 3, Optional: true}},
		}},
		Objects: map[uint32]nltest.Objects{1: {
			Context: []netlinkrdma.Context{{Owner: pod, CTXN: 4}},
			PD:      []netlinkrdma.PD{{Owner: pod, PDN: 2, CTXN: opt[uint32](4)}},
			QP: []netlinkrdma.QP{{Owner: netlinkrdma.Owner{Kernel: "ib_core"}, Port: 1, LQPN: 1, Type: 1}, {Owner: pod, Port: 1, LQPN: 17, Type: 2, PDN: opt[uint32](2)},
				{Owner: netlinkrdma.Owner{TID: 9}, Port: 1, LQPN: 18, Type: 2, PDN: opt[uint32](2)}},
			MR: []netlinkrdma.MR{{Owner: pod, MRN: 1, Length: 1 << 20, PDN: opt[uint32](2)}},
		}},
	}
	files := fstest.MapFS{
		"7/status": {Data: []byte("Name:\tserver\nTgid:\t7\nVmPin:\t    1024 kB\nCapEff:\t0000000000000000\n")},
		"7/comm":   {Data: []byte("server\x1b[2J\n")},
		"7/cgroup": {Data: []byte(podPath + container + ".scope\n")},
		"7/limits": {Data: []byte("Max locked memory         8388608              8388608              bytes\n")},
	}
	sys := fstest.MapFS{
		"class/infiniband/mlx5_0/ports/1/rate":                        {Data: []byte("100 Gb/sec (4X EDR)\n")},
		"class/infiniband/mlx5_0/ports/1/counters/port_xmit_data":     {Data: []byte("25\n")},
		"class/infiniband/mlx5_0/ports/1/counters/VL15_dropped":       {Data: []byte("N/A (no PMA)\n")},
		"class/infiniband/mlx5_0/hw_counters/completed_cmds":          {Data: []byte("11\n")},
		"class/infiniband/mlx5_0/hw_counters/lifespan":                {Data: []byte("10\n")},
		"class/net/eth0/mtu":                                          {Data: []byte("4200\n")},
		"fs/cgroup" + podPath[3:] + container + ".scope/rdma.current": {Data: []byte("mlx5_0 hca_handle=1 hca_object=5\n")},
		"fs/cgroup" + podPath[3:] + container + ".scope/rdma.max":     {Data: []byte("mlx5_0 hca_handle=2 hca_object=max\n")},
	}
	pods := fstest.MapFS{"prod_web-0_0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f/log": {}}
	return &metrics.Collector{
		RDMA: &netlinkrdma.Client{Kernel: kernel}, Proc: files, Sys: sys, Pods: pods,
		Query: func(d netlinkrdma.Device) (metrics.Details, error) {
			if d.Index != 1 {
				return metrics.Details{}, syscall.EACCES
			}
			return metrics.Details{Limits: &verbs.DeviceAttr{MaxQP: 131072, MaxMR: 1 << 20}, MTU: map[int]int{1: 4096}, GIDs: []verbs.GIDEntry{{Port: 1, Index: 3}}}, nil
		},
	}, kernel
}

// scrape returns the page that an HTTP client receives.
func scrape(t testing.TB, source *metrics.Collector, watcher *metrics.Watcher) string {
	t.Helper()
	w := httptest.NewRecorder()
	handler(source, watcher, new(podResources), slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func expect(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, "rdma_") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

// TestPage checks every kind of metric.
func TestPage(t *testing.T) {
	source, kernel := machine()
	watcher := &metrics.Watcher{RDMA: source.RDMA}
	if err := watcher.Check(); err != nil {
		t.Fatal(err)
	}
	kernel.Ports[1].State = verbs.PortActive
	if err := watcher.Check(); err != nil {
		t.Fatal(err)
	}
	process := func(pid, name, kernel string) string {
		cgroup, uid, ns, pod, id := "", "", "", "", ""
		if pid == "7" {
			cgroup, uid, ns, pod, id = podPath[3:]+container+".scope", "0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f", "prod", "web-0", container
		}
		return fmt.Sprintf(`cgroup=%q,container_id=%q,device="mlx5_0",kernel=%q`, cgroup, id, kernel) + "KIND" +
			fmt.Sprintf(`,namespace=%q,pid=%q,pod=%q,pod_uid=%q,process=%q`, ns, pid, pod, uid, name)
	}
	kind := func(labels, kind string) string {
		if kind != "" {
			kind = `,kind="` + kind + `"`
		}
		return strings.Replace(labels, "KIND", kind, 1)
	}
	server := strings.Replace(process("7", "NAME", ""), "NAME", `server\\x1b[2J`, 1)
	page := scrape(t, source, watcher)
	expect(t, page,
		"rdma_up 1",
		`rdma_device_info{device="mlx5_0",driver="mlx5",firmware="16.35.4030",node_guid="0200:0000:0000:0001",node_type="ca",parent="",protocol="roce",sys_image_guid="0000:0000:0000:0000"} 1`,
		`rdma_device_objects{device="mlx5_0",kind="qp"} 3`,
		`rdma_device_objects_limit{device="mlx5_0",kind="qp"} 131072`,
		`rdma_device_driver_total{counter="completed_cmds",device="mlx5_0"} 11`,
		`rdma_port_info{device="mlx5_0",netdev="eth0",port="1"} 1`,
		`rdma_port_active{device="mlx5_0",port="1"} 1`,
		`rdma_port_physical_state{device="siw0",port="1"} 3`,
		`rdma_port_rate_bytes_per_second{device="mlx5_0",port="1"} 1.25e+10`,
		`rdma_port_mtu_bytes{device="mlx5_0",port="1"} 4096`,
		`rdma_port_netdev_mtu_bytes{device="mlx5_0",netdev="eth0",port="1"} 4200`,
		`rdma_port_transmit_bytes_total{counter="port_xmit_data",device="mlx5_0",port="1"} 100`,
		`rdma_port_cnp_sent_total{counter="np_cnp_sent",device="mlx5_0",port="1"} 5`,
		`rdma_port_cnp_received_total{counter="cc_rx_cnp_pkts",device="mlx5_0",port="1"} 4`,
		`rdma_port_driver_total{counter="cc_tx_cnp_pkts",device="mlx5_0",port="1"} 6`,
		`rdma_port_driver_total{counter="roce_slow_restart",device="mlx5_0",port="1"} 2`,
		`rdma_port_optional_enabled{counter="cc_rx_ce_pkts",device="mlx5_0",port="1"} 0`,
		`rdma_port_optional_enabled{counter="cc_rx_cnp_pkts",device="mlx5_0",port="1"} 1`,
		`rdma_port_events_total{device="siw0",event="active",port="1"} 1`,
		`rdma_cgroup_resources_limit{cgroup="`+podPath[3:]+container+`.scope",device="mlx5_0",resource="hca_handle"} 2`,
		`rdma_cgroup_resources_limit{cgroup="`+podPath[3:]+container+`.scope",device="mlx5_0",resource="hca_object"} +Inf`,
		`rdma_scrape_errors{device="siw0",part="details"} 1`,
		`rdma_process_pinned_bytes{pid="7",pod_uid="0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f",process="server\\x1b[2J"} 1.048576e+06`,
		`rdma_process_memlock_limit_bytes{pid="7",pod_uid="0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f",process="server\\x1b[2J"} 8.388608e+06`,
		"rdma_process_objects{"+kind(server, "qp")+"} 2",
		"rdma_process_mr_bytes{"+kind(server, "")+"} 1.048576e+06",
		"rdma_process_objects{"+kind(process("", "", "ib_core"), "qp")+"} 1",
	)
	if strings.ContainsAny(page, "\x1b") {
		t.Error("the page has a control character")
	}
}

// pfcRoute returns a fake rtnetlink with a device eth0 that has PFC for priority 3, trust in DSCP and a
// queue with ECN.
func pfcRoute(sent, received uint64) rtnetlink.Route {
	attr := func(typ uint16, value []byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		b = append(binary.NativeEndian.AppendUint16(b, typ), value...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	return func(typ uint16, dump bool, _ []byte) ([][]byte, error) {
		if dump {
			queue := make([]byte, 20)
			binary.NativeEndian.PutUint32(queue[4:], 3) // eth0
			queue = append(queue, attr(1, []byte("fq_codel\x00"))...)
			return [][]byte{append(queue, attr(2, attr(4, []byte{1, 0, 0, 0}))...)}, nil
		}
		pfc := make([]byte, 136)
		pfc[1] = 1 << 3
		binary.NativeEndian.PutUint64(pfc[8+8*3:], sent)
		binary.NativeEndian.PutUint64(pfc[72+8*3:], received)
		return [][]byte{append(make([]byte, 4), attr(13, append(attr(2, pfc), attr(11, attr(3, []byte{5}))...))...)}, nil
	}
}

// TestNetdev checks the metrics of a network device.
func TestNetdev(t *testing.T) {
	source, _ := machine()
	source.Route = pfcRoute(11, 22)
	expect(t, scrape(t, source, &metrics.Watcher{RDMA: source.RDMA}),
		`rdma_netdev_pfc_enabled{netdev="eth0",priority="3"} 1`, `rdma_netdev_pfc_enabled{netdev="eth0",priority="0"} 0`,
		`rdma_netdev_pfc_sent_total{netdev="eth0",priority="3"} 11`, `rdma_netdev_pfc_received_total{netdev="eth0",priority="3"} 22`,
		`rdma_netdev_trust_dscp{netdev="eth0"} 1`, `rdma_netdev_qdisc_ecn{netdev="eth0",qdisc="fq_codel"} 1`)
}

// TestLint applies promtool's rules to the metrics.
func TestLint(t *testing.T) {
	source, _ := machine()
	problems, err := testutil.CollectAndLint(&exporter{source, &metrics.Watcher{RDMA: source.RDMA}, new(podResources), &failureLog{log: slog.New(slog.DiscardHandler)}})
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// changing is a kernel that calls before ahead of each operation.
type changing struct {
	*nltest.Kernel
	before func(op uint16)
}

func (k changing) Execute(req netlinkrdma.Request) ([][]byte, error) {
	k.before(req.Op)
	return k.Kernel.Execute(req)
}

const opPorts = 5 // RDMA_NLDEV_CMD_PORT_GET

// TestVanishing removes, moves and renames a device while it is read.
func TestVanishing(t *testing.T) {
	for name, change := range map[string]func(k *nltest.Kernel){
		"removed": func(k *nltest.Kernel) { k.Devices = k.Devices[1:] },
		"moved":   func(k *nltest.Kernel) { k.Moved, k.Devices = k.Devices[:1], k.Devices[1:] },
		"renamed": func(k *nltest.Kernel) {
			k.Devices = append([]netlinkrdma.Device{{Index: 1, Name: "left", Ports: 1}}, k.Devices[1:]...)
		},
	} {
		source, kernel := machine()
		done := false
		source.RDMA.Kernel = changing{kernel, func(op uint16) {
			if op == opPorts && !done {
				done = true
				change(kernel)
			}
		}}
		page := scrape(t, source, &metrics.Watcher{RDMA: source.RDMA})
		if strings.Contains(page, `{device="mlx5_0"`) || strings.Contains(page, `{device="left"`) != (name == "renamed") {
			t.Errorf("%s: %s", name, page[strings.Index(page, "# HELP rdma"):])
		}
		expect(t, page, `rdma_port_active{device="siw0",port="1"} 0`)
	}
}

// TestNewDevice adds devices. The counter of each begins at 1, and the sum over all devices increases.
func TestNewDevice(t *testing.T) {
	source, kernel := machine()
	watcher := &metrics.Watcher{RDMA: source.RDMA}
	check := func() {
		if err := watcher.Check(); err != nil {
			t.Fatal(err)
		}
	}
	check()
	expect(t, scrape(t, source, watcher), `rdma_events_total{event="added"} 0`, `rdma_events_total{event="removed"} 0`, `rdma_events_total{event="renamed"} 0`,
		`rdma_events_total{event="active"} 0`, `rdma_events_total{event="down"} 0`)
	for i, name := range []string{"rxe0", "rxe1"} {
		kernel.Devices = append(kernel.Devices, netlinkrdma.Device{Index: 3 + uint32(i), Name: name})
		check()
		expect(t, scrape(t, source, watcher), fmt.Sprintf(`rdma_events_total{event="added"} %d`, i+1), `rdma_device_events_total{device="`+name+`",event="added"} 1`)
	}
}

// TestFalls resets a counter.
func TestFalls(t *testing.T) {
	source, kernel := machine()
	watcher := &metrics.Watcher{RDMA: source.RDMA}
	expect(t, scrape(t, source, watcher), `rdma_port_value_resets_total{device="mlx5_0",port="1"} 0`)
	kernel.Statistics[nltest.PortID{Device: 1, Port: 1}].Counters[0].Value = 1
	for range 2 { // it falls once
		expect(t, scrape(t, source, watcher), `rdma_port_cnp_sent_total{counter="np_cnp_sent",device="mlx5_0",port="1"} 1`,
			`rdma_port_value_resets_total{device="mlx5_0",port="1"} 1`)
	}
}

// TestGauges checks that numbers of objects and rates, which drivers list among their counters, are
// gauges. They may become smaller without a reset.
func TestGauges(t *testing.T) {
	source, kernel := machine()
	source.Sys.(fstest.MapFS)["class/infiniband/mlx5_0/hw_counters/current_rate"] = &fstest.MapFile{Data: []byte("40\n")}
	for _, n := range []string{"9", "4"} {
		value := uint64(n[0] - '0')
		kernel.Statistics[nltest.PortID{Device: 1, Port: 1}] = nltest.Statistics{Counters: []netlinkrdma.Counter{
			{Name: "active_qps", Value: value}, {Name: "watermark_qps", Value: value}, {Name: "resize_cq_cnt", Value: 3}}}
		page := scrape(t, source, &metrics.Watcher{RDMA: source.RDMA})
		expect(t, page, `rdma_port_driver_value{counter="active_qps",device="mlx5_0",port="1"} `+n,
			`rdma_port_driver_value{counter="watermark_qps",device="mlx5_0",port="1"} `+n,
			`rdma_device_driver_value{counter="current_rate",device="mlx5_0"} 40`,
			`rdma_port_driver_total{counter="resize_cq_cnt",device="mlx5_0",port="1"} 3`,
			`rdma_port_value_resets_total{device="mlx5_0",port="1"} 0`, "# TYPE rdma_port_driver_value gauge")
		if strings.Contains(page, `rdma_port_driver_total{counter="active_qps"`) {
			t.Error("active_qps is a counter")
		}
	}
}

// TestLongNames checks that counters whose names differ only after 300 bytes have different series.
func TestLongNames(t *testing.T) {
	source, kernel := machine()
	long := strings.Repeat("é", 150)
	kernel.Statistics[nltest.PortID{Device: 1, Port: 1}] = nltest.Statistics{Counters: []netlinkrdma.Counter{{Name: long + "1", Value: 1}, {Name: long + "2", Value: 2}}}
	page := scrape(t, source, &metrics.Watcher{RDMA: source.RDMA})
	for _, value := range []string{"1", "2"} {
		if !regexp.MustCompile(`(?m)^rdma_port_driver_total\{counter="é{119}~[0-9a-f]{16}",device="mlx5_0",port="1"\} ` + value + "$").MatchString(page) {
			t.Errorf("no counter with value %s", value)
		}
	}
}

// TestHostile scrapes a kernel whose names contain control characters, invalid UTF-8 or paths out of
// sysfs, or occur twice, and a kernel that fails each operation.
func TestHostile(t *testing.T) {
	source, kernel := machine()
	for _, name := range []string{"../../../etc", "\x1b]0;x\x07", "\xff\xfe", strings.Repeat("é", 200), "a\nrdma_up 2", "", "."} {
		kernel.Devices[0].Name, kernel.Ports[0].NetdevName = name, name
		kernel.Devices[1].Name = name
		kernel.Statistics[nltest.PortID{Device: 1, Port: 1}] = nltest.Statistics{Counters: []netlinkrdma.Counter{{Name: name + "x", Value: 1}, {Name: name + "x", Value: 2}}}
		page := scrape(t, source, &metrics.Watcher{RDMA: source.RDMA})
		if strings.ContainsAny(page, "\x1b\x07\xff") || strings.Contains(page, "\nrdma_up 2") {
			t.Errorf("%q:\n%s", name, page)
		}
	}
	for op := uint16(1); op < 40; op++ {
		for _, err := range []error{syscall.EPERM, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOENT, errors.New("other")} {
			source, kernel := machine()
			kernel.Fail = map[uint16]error{op: err}
			up := "\nrdma_up 1\n"
			if op == 1 { // RDMA_NLDEV_CMD_GET
				up = "\nrdma_up 0\n"
			}
			if page := scrape(t, source, &metrics.Watcher{RDMA: source.RDMA}); !strings.Contains(page, up) {
				t.Errorf("operation %d fails with %v:\n%s", op, err, page)
			}
		}
	}
}

// TestBounds checks that the number of series is bounded for many processes and counters.
func TestBounds(t *testing.T) {
	source, kernel := machine()
	o := kernel.Objects[1]
	files := source.Proc.(fstest.MapFS)
	for i := range uint32(2000) {
		tid := 1000 + i
		o.QP = append(o.QP, netlinkrdma.QP{Owner: netlinkrdma.Owner{TID: tid}, LQPN: 100 + i, Type: 2})
		files[fmt.Sprintf("%d/status", tid)] = &fstest.MapFile{Data: fmt.Appendf(nil, "Tgid:\t%d\n", tid)}
	}
	kernel.Objects[1] = o
	s := kernel.Statistics[nltest.PortID{Device: 1, Port: 1}]
	for i := range 2000 {
		s.Counters = append(s.Counters, netlinkrdma.Counter{Name: fmt.Sprint("c", i)})
	}
	kernel.Statistics[nltest.PortID{Device: 1, Port: 1}] = s
	page := scrape(t, source, &metrics.Watcher{RDMA: source.RDMA})
	if n := strings.Count(page, `kind="qp",namespace`); n != 257 {
		t.Errorf("%d processes", n)
	}
	if n := strings.Count(page, "\nrdma_port_driver_total"); n > 512 {
		t.Errorf("%d counters", n)
	}
	expect(t, page, "rdma_processes_summed_up 1746", `rdma_scrape_errors{device="mlx5_0",part="counters"} 1`)
}

func TestHealth(t *testing.T) {
	source, kernel := machine()
	h := handler(source, &metrics.Watcher{RDMA: source.RDMA}, new(podResources), slog.New(slog.DiscardHandler))
	for code, err := range map[int]error{http.StatusOK: nil, http.StatusServiceUnavailable: syscall.EPROTONOSUPPORT} {
		kernel.Fail = map[uint16]error{1: err}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/healthz", nil))
		if w.Code != code {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}

// recorded is a kernel that returns encoded answers about a device with many QPs.
type recorded struct {
	netlinkrdma.Kernel
	qps [][]byte
}

const opQPs = 10 // RDMA_NLDEV_CMD_RES_QP_GET

func (k recorded) Stream(req netlinkrdma.Request, f func(reply []byte) bool) error {
	replies := k.qps
	if req.Op != opQPs || binary.NativeEndian.Uint32(req.Attrs[0].Value) != 1 {
		var err error
		if replies, err = k.Execute(req); err != nil {
			return err
		}
	}
	for _, reply := range replies {
		if !f(reply) {
			break
		}
	}
	return nil
}

// manyQPs returns a machine whose process 7 has n QPs.
func manyQPs(n uint32) *metrics.Collector {
	source, kernel := machine()
	o := kernel.Objects[1]
	for i := range n {
		o.QP = append(o.QP, netlinkrdma.QP{Owner: netlinkrdma.Owner{TID: 7}, Port: 1, LQPN: 100 + i, Type: 2, PDN: opt[uint32](2)})
	}
	kernel.Objects[1] = o
	req := netlinkrdma.Request{Op: opQPs, Dump: true, Attrs: []netlinkrdma.Attr{{Type: 1, Value: binary.NativeEndian.AppendUint32(nil, 1)}}}
	replies, err := kernel.Execute(req)
	if err != nil {
		panic(err) // machine always has the device
	}
	source.RDMA.Kernel = recorded{kernel, replies}
	return source
}

// BenchmarkScrape scrapes 5,000 QPs, which must take less than 50 ms.
func BenchmarkScrape(b *testing.B) {
	h := handler(manyQPs(5000), &metrics.Watcher{}, new(podResources), slog.New(slog.DiscardHandler))
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		_, _ = io.Copy(io.Discard, w.Body)
	}
}

// TestFlatMemory checks that the memory of a scrape hardly depends on the number of QPs, and that a
// scrape keeps no memory.
func TestFlatMemory(t *testing.T) {
	allocated := func(n uint32) uint64 {
		source := manyQPs(n)
		watcher := &metrics.Watcher{RDMA: source.RDMA}
		scrape(t, source, watcher)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		scrape(t, source, watcher)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(50), allocated(50000)
	if more := int64(many) - int64(few); more > 50000*32 {
		t.Errorf("a scrape allocates %d bytes with 50 QPs, %d with 50,000", few, many)
	}
}
