package metrics

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// TestInterpret checks that only the counters of one origin have a metric, and that units are converted.
func TestInterpret(t *testing.T) {
	counters := []Counter{
		{Name: "rdma_tx_bytes", Value: 9, Origin: Optional}, {Name: "port_xmit_data", Value: 5, Origin: Standard},
		{Name: "ip4InOctets", Value: 1, Origin: Driver}, {Name: "ip6InOctets", Value: 2, Origin: Driver}, {Name: "rdma_rx_bytes", Value: 9, Origin: Optional},
		{Name: "unheard_of", Value: 3},
	}
	interpret(counters)
	p := Port{Counters: counters}
	if n, ok := p.Sum("transmit_bytes"); n != 20 || !ok {
		t.Error(n, ok)
	}
	if n, ok := p.Sum("receive_bytes"); n != 3 || !ok {
		t.Error(n, ok)
	}
	if _, ok := p.Sum("cnp_sent"); ok || counters[0].Metric != nil || counters[4].Metric != nil || counters[5].Metric != nil || counters[5].Value != 3 {
		t.Error(counters)
	}
}

// TestMeanings checks that each metric has a counter, and that the page lists all of them.
func TestMeanings(t *testing.T) {
	page, err := os.ReadFile("../../docs/exporter.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range meanings {
		_, row, found := strings.Cut(string(page), "| `rdma_port_"+m.metric.Name+"_total` |")
		row, _, _ = strings.Cut(row, "\n")
		if !found || !slices.ContainsFunc(strings.FieldsFunc(row, func(r rune) bool { return r == '|' || r == ',' }), func(s string) bool { return strings.TrimSpace(s) == name }) {
			t.Errorf("docs/exporter.md does not have %s as %s", name, m.metric.Name)
		}
	}
	used := make(map[*Metric]bool)
	for name, m := range meanings {
		used[m.metric] = true
		if !slices.Contains(Metrics, m.metric) {
			t.Errorf("the metric of %s is not in Metrics", name)
		}
	}
	for _, m := range Metrics {
		if !used[m] {
			t.Errorf("no counter has metric %s", m.Name)
		}
	}
}

// TestCgroups parses paths of the kubelet's two cgroup drivers, and other paths.
func TestCgroups(t *testing.T) {
	id := strings.Repeat("0f", 32)
	const uid = "0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f"
	for path, want := range map[string]Pod{
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0001_0002_0003_0a1b2c3d4e5f.slice/cri-containerd-" + id + ".scope": {UID: uid, Container: id},
		"/kubepods.slice/kubepods-pod0a1b2c3d_0001_0002_0003_0a1b2c3d4e5f.slice/crio-" + id + ".scope/container":                                    {UID: uid, Container: id},
		"/../../kubepods/besteffort/pod" + uid + "/" + id:                                                                                           {UID: uid, Container: id},
		"/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + id:                                                                             {UID: "0123456789abcdef0123456789abcdef", Container: id},
		"/kubepods/pod" + uid:                    {UID: uid},
		"/kubepods/pod" + uid + "/conmon":        {UID: uid},
		"/user.slice/user-0.slice/session.scope": {},
		"/podman/pod0a1b":                        {},
		"":                                       {},
	} {
		if got := podOf(path); got != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	for text, want := range map[string]string{
		"0::/a:b\n":                        "/a:b",
		"12:cpu,rdma:/v1\n0::/v2\n":        "/v1",
		"0::/v2\n12:rdma:/v1\n":            "/v1",
		"1:name=systemd:/x\nnothing\n0::/": "/",
		"":                                 "",
	} {
		if got := cgroupOf(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestMemlock(t *testing.T) {
	for text, want := range map[string]uint64{"Max locked memory  65536 65536 bytes": 65536, "x\nMax locked memory unlimited unlimited bytes": NoLimit} {
		if got, known := memlock(text); got != want || !known {
			t.Errorf("%q: %d, %v", text, got, known)
		}
	}
	for _, text := range []string{"", "Max locked memory", "Max locked memory -1 -1 bytes"} {
		if got, known := memlock(text); known {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestRates(t *testing.T) {
	for line, want := range map[string]uint64{
		"100 Gb/sec (4X EDR)": 100e9, "2.5 Gb/sec (1X SDR)": 25e8, "0.5 Gb/sec (1X)": 5e8, "": 0, "100": 0, "-1 Gb/sec": 0, "1e300 Gb/sec": 0, "NaN Gb/sec": 0,
	} {
		if got := parseRate(line); got != want {
			t.Errorf("%q: %d, want %d", line, got, want)
		}
	}
}

// TestMemlockLifted reads a process with CAP_IPC_LOCK.
func TestMemlockLifted(t *testing.T) {
	limits := &fstest.MapFile{Data: []byte("Max locked memory 4096 4096 bytes")}
	u := newUsers(fstest.MapFS{
		"5/status": {Data: []byte("VmPin:\t8 kB\nCapEff:\t0000000000004000\n")}, "5/limits": limits,
		"6/status": {Data: []byte("VmPin:\t8 kB\nCapEff:\t0000000000003fff\n")}, "6/limits": limits,
	})
	for pid, want := range map[int]uint64{5: NoLimit, 6: 4096} {
		p := Process{PID: pid}
		if u.describe(&p); p.Memlock != want || p.Pinned != 8192 || !p.MemlockKnown {
			t.Errorf("%+v", p)
		}
	}
}

// FuzzPrintable checks that Printable never returns control characters, and that the parsers accept
// arbitrary input.
func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"mlx5_0", "\x1b[2J", "\xff", strings.Repeat("é", 300), "0::/kubepods/pod0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f/x", "mlx5_0 hca_handle=max"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := Printable(s)
		if len(p) > 256 || !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("%q", p)
		}
		podOf(cgroupOf(s))
		memlock(s)
		uses(s)
		parseRate(s)
	})
}

// state returns a kernel with named devices, whose ports have one state.
func state(s verbs.PortState, names map[uint32]string) *nltest.Kernel {
	k := &nltest.Kernel{System: netlinkrdma.System{Monitor: true}}
	for index := range uint32(10) {
		if name, ok := names[index]; ok {
			k.Devices = append(k.Devices, netlinkrdma.Device{Index: index, Name: name, Ports: 1})
			k.Ports = append(k.Ports, netlinkrdma.Port{DeviceIndex: index, DeviceName: name, Index: 1, State: s})
		}
	}
	return k
}

// TestWatcherCheck counts the differences between two checks.
func TestWatcherCheck(t *testing.T) {
	w := &Watcher{RDMA: new(netlinkrdma.Client)}
	for _, k := range []*nltest.Kernel{
		state(verbs.PortActive, map[uint32]string{1: "a", 2: "b"}),
		state(verbs.PortActive, map[uint32]string{1: "a", 2: "c"}),
		state(verbs.PortDown, map[uint32]string{1: "a", 3: "c"}), // removed and added again
		state(verbs.PortInit, map[uint32]string{1: "a", 3: "c"}),
		{Fail: map[uint16]error{1: syscall.EPERM}},
		state(verbs.PortActive, map[uint32]string{1: "a", 3: "c"}),
	} {
		w.RDMA.Kernel = k
		if err := w.Check(); (err != nil) != (k.Fail != nil) {
			t.Fatal(err)
		}
	}
	want := []EventCount{{"a", 1, Active, 1}, {"a", 1, Down, 1}, {"c", 0, Added, 1}, {"c", 0, Removed, 1}, {"c", 0, Renamed, 1}, {"c", 1, Active, 1}}
	if got := happened(w); !slices.Equal(got, want) {
		t.Error(got)
	}
}

// TestWatcherBound checks that devices with new names don't use unlimited memory.
func TestWatcherBound(t *testing.T) {
	w := &Watcher{RDMA: new(netlinkrdma.Client)}
	for i := range 3000 {
		w.RDMA.Kernel = state(verbs.PortActive, map[uint32]string{1: strings.Repeat("x", i+1)})
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
	}
	all := happened(w)
	others := slices.IndexFunc(all, func(c EventCount) bool { return c.Device == "others" })
	if len(all) > maxEventCounts+4 || others < 0 || all[others].Count != 2999-maxEventCounts {
		t.Error(len(all), others)
	}
}

// TestWatcherRun counts a device that is added and removed between two checks, which the kernel
// reports.
func TestWatcherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := state(verbs.PortActive, map[uint32]string{1: "a"})
		locked := &lockedKernel{Kernel: k}
		w := &Watcher{RDMA: &netlinkrdma.Client{Kernel: locked}}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			w.Run(ctx, time.Hour)
			close(done)
		}()
		synctest.Wait()
		for _, e := range []netlinkrdma.EventType{netlinkrdma.EventRegister, netlinkrdma.EventRegister, netlinkrdma.EventUnregister} {
			k.Notify(netlinkrdma.Event{Type: e, DeviceIndex: 5, DeviceName: "b"})
			synctest.Wait()
		}
		locked.mu.Lock()
		k.Ports[0].State = verbs.PortDown
		locked.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, want := happened(w), []EventCount{{"a", 1, Down, 1}, {"b", 0, Added, 2}, {"b", 0, Removed, 2}}; !slices.Equal(got, want) {
			t.Error(got)
		}
		stop()
		<-done
	})
}

// happened returns the counts that are not zero.
func happened(w *Watcher) []EventCount {
	return slices.DeleteFunc(w.Counts(), func(c EventCount) bool { return c.Count == 0 })
}

// TestCountsBegin checks that a counter exists before its first event.
func TestCountsBegin(t *testing.T) {
	w := &Watcher{RDMA: &netlinkrdma.Client{Kernel: state(verbs.PortActive, map[uint32]string{1: "a"})}}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	want := []EventCount{{"a", 0, Added, 0}, {"a", 0, Removed, 0}, {"a", 0, Renamed, 0}, {"a", 1, Active, 0}, {"a", 1, Down, 0}}
	if got := w.Counts(); !slices.Equal(got, want) {
		t.Error(got)
	}
}

// lockedKernel is a kernel whose state a test can change while a watcher reads it.
type lockedKernel struct {
	mu sync.Mutex
	*nltest.Kernel
}

func (k *lockedKernel) Execute(req netlinkrdma.Request) ([][]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Kernel.Execute(req)
}

// TestDeadThread checks that an object whose thread has ended counts for the process of its context. An
// object without a context must not count for any process.
func TestDeadThread(t *testing.T) {
	number := func(n uint32) netlinkrdma.Opt[uint32] { return netlinkrdma.Opt[uint32]{Value: n, Known: true} }
	thread := func(tid uint32) netlinkrdma.Owner { return netlinkrdma.Owner{TID: tid} }
	k := state(verbs.PortActive, map[uint32]string{1: "a"})
	k.Objects = map[uint32]nltest.Objects{1: {
		Context: []netlinkrdma.Context{{Owner: thread(8), CTXN: 3}},
		PD:      []netlinkrdma.PD{{Owner: thread(8), PDN: 4, CTXN: number(3)}},
		QP:      []netlinkrdma.QP{{Owner: thread(9), LQPN: 5, PDN: number(4)}, {Owner: thread(8), LQPN: 6}, {LQPN: 7, PDN: number(44)}},
		CQ:      []netlinkrdma.CQ{{Owner: thread(21), CQN: 1, CTXN: number(3)}},
	}}
	c := &Collector{RDMA: &netlinkrdma.Client{Kernel: k}, Sys: fstest.MapFS{}, Proc: fstest.MapFS{"21/status": {Data: []byte("Tgid:\t20\n")}, "20/comm": {Data: []byte("go\n")}}}
	s, err := c.Collect()
	if err != nil || len(s.Processes) != 2 || len(s.Errors) > 0 {
		t.Fatal(s, err)
	}
	if p, use := s.Processes[0], s.Processes[0].Total(); p.PID != 20 || p.Name != "go" || use.Objects != [Kinds]uint64{QP: 1, CQ: 1, PD: 1, Context: 1} {
		t.Errorf("%+v", p)
	}
	if p, use := s.Processes[1], s.Processes[1].Total(); p.PID != 0 || use.Objects != [Kinds]uint64{QP: 2} {
		t.Errorf("%+v", p)
	}
}
