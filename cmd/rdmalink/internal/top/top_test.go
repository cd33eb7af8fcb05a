package top

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// growing is a kernel whose counters increase by step with each reading.
type growing struct {
	*nltest.Kernel
	step  uint64
	reads int
}

const opCounters = 17 // RDMA_NLDEV_CMD_STAT_GET

func (k *growing) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if req.Op == opCounters && binary.NativeEndian.Uint32(req.Attrs[0].Value) == 1 {
		k.reads++
		k.Statistics = map[nltest.PortID]nltest.Statistics{{Device: 1, Port: 1}: {Counters: []netlinkrdma.Counter{
			{Name: "sent_pkts", Value: 1000 + uint64(k.reads)*k.step}, {Name: "rcvd_pkts", Value: uint64(100 - k.reads)},
			{Name: "rx_bytes", Value: 3_000_000 * uint64(k.reads)}}}}
	}
	return k.Kernel.Execute(req)
}

// machine returns a machine with a busy device rxe0, and siw0 without counters.
func machine() (*cli.Tool, *growing) {
	server, client, core := netlinkrdma.Owner{TID: 7}, netlinkrdma.Owner{TID: 8}, netlinkrdma.Owner{Kernel: "ib_core"}
	k := &growing{step: 4000, Kernel: &nltest.Kernel{
		Devices: []netlinkrdma.Device{{Index: 1, Name: "rxe0", Ports: 1, Protocol: "roce"}, {Index: 2, Name: "siw0", Ports: 1, Protocol: "iw"}},
		Ports: []netlinkrdma.Port{{DeviceIndex: 1, DeviceName: "rxe0", Index: 1, State: verbs.PortActive, NetdevIndex: 2, NetdevName: "eth0"},
			{DeviceIndex: 2, DeviceName: "siw0", Index: 1, State: verbs.PortDown}},
		Resources: []netlinkrdma.Resource{{Kind: "qp", Count: 4}, {Kind: "cq", Count: 1}},
		Objects: map[uint32]nltest.Objects{1: {
			QP: []netlinkrdma.QP{{Owner: core, Port: 1, LQPN: 1, Type: 1}, {Owner: server, LQPN: 17}, {Owner: server, LQPN: 18}, {Owner: client, LQPN: 19}},
			CQ: []netlinkrdma.CQ{{Owner: client, CQN: 1}},
			MR: []netlinkrdma.MR{{Owner: client, MRN: 1, Length: 5 << 20}},
		}},
	}}
	limits := "Max locked memory 65536 65536 bytes"
	t := &cli.Tool{Machine: host.Machine{RDMA: &netlinkrdma.Client{Kernel: k}, Sys: hosttest.Tree(map[string]string{"class/infiniband/rxe0/ports/1/rate": "2.5 Gb/sec (1X SDR)"}),
		Proc: hosttest.Tree(map[string]string{
			"7/status": "Tgid:\t7\nVmPin:\t40 kB\nCapEff:\t0", "7/comm": "a\x1b[2Jserver", "7/limits": limits, "7/cgroup": "0::/system.slice/server.service",
			"8/status": "Tgid:\t8", "8/comm": "client", "8/cgroup": "0::/kubepods/pod0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f",
		})}}
	t.Route = new(hosttest.Rtnetlink).Route
	return t, k
}

func lines(t *testing.T, words ...string) clitest.Result {
	tool, _ := machine()
	return clitest.RunWords(tool, commandAlone(), append([]string{"top"}, words...))
}

// TestBatch checks the tables.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lines(t, "-b", "-n", "1", "-i", "2")
		first, rest, _ := strings.Cut(r.Out, "\n")
		if r.Code != 0 || r.Err != "" || !strings.HasSuffix(first, "sorted by qp  2 devices, 2 ports, 3 users") {
			t.Error(r.Code, r.Err, first)
		}
		want := `
DEVICE  QP  CQ  MR  PD
rxe0     4   1   0   0
siw0     4   1   0   0

PORT    NETDEV  STATE   LINK   TX/s    RX/s  TXPKTS/s  RXPKTS/s  RETRANS/s  CNP/s  DROPS/s
rxe0/1  eth0    ACTIVE  2.5Gb     -  1.5MB      2.0k         0          -      -        -
siw0/1  -       DOWN        -     -      -         -         -          -      -        -

PID  NAME              QP  CQ  MR  PD  CTX  BYTES  PINNED  MEMLOCK  POD OR CGROUP
7    a\x1b[2Jserver      2   0   0   0    0     0B  41.0kB   65.5kB  /system.slice/server.service
8    client             1   1   1   0    0  5.2MB       -        -  pod 0a1b2c3d-0001-0002-0003-0a1b2c3d4e5f
-    [ib_core]          1   0   0   0    0     0B       -        -  -
`
		squeeze := func(s string) string {
			var all []string
			for line := range strings.Lines(s) {
				all = append(all, strings.Join(strings.Fields(line), " "))
			}
			return strings.Join(all, "\n")
		}
		if diff := cmp.Diff(squeeze(want), squeeze(rest)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestJSON checks that each snapshot is one object, and has rates if the driver has counters.
func TestJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := lines(t, "-j", "-n", "2", "-i", "2", "-s", "bytes")
		d := json.NewDecoder(strings.NewReader(r.Out))
		for range 2 {
			var p page
			if err := d.Decode(&p); err != nil {
				t.Fatal(err, r)
			}
			if len(p.Ports) != 2 || p.Ports[0].TXPkts == nil || *p.Ports[0].TXPkts != 2000 || *p.Ports[0].RXPkts != 0 || p.Ports[0].TX != nil || p.Ports[0].Rate != 25e8 {
				t.Error(r.Out)
			}
			if len(p.Processes) != 3 || p.Processes[0].Name != "client" || p.Processes[0].MRBytes != 5<<20 || *p.Processes[1].Memlock != 65536 {
				t.Error(r.Out)
			}
		}
		if _, err := d.Token(); err != io.EOF {
			t.Error(err)
		}
	})
}

// TestSort checks that each column sorts its own table, largest numbers first.
func TestSort(t *testing.T) {
	rate := func(f float64) *float64 { return &f }
	bytes := func(n uint64) *uint64 { return &n }
	ports := []port{{Port: 1, TX: rate(1), RX: rate(2)}, {Port: 2, TX: rate(3)}, {Port: 3}}
	processes := []process{{PID: 1, Name: "b", Objects: map[string]uint64{"qp": 1}, Pinned: bytes(1)}, {PID: 2, Name: "a", Objects: map[string]uint64{"qp": 2}, MRBytes: 1}}
	for key, want := range map[string][]int{"tx": {2, 1, 3}, "rx": {1, 2, 3}, "qp": {2, 1}, "bytes": {2, 1}, "pinned": {1, 2}, "pid": {1, 2}, "name": {2, 1}} {
		c := sortColumns[slices.Index(sortKeys(), key)]
		var got []int
		if c.port != nil {
			for _, p := range slices.SortedStableFunc(slices.Values(ports), c.port) {
				got = append(got, int(p.Port))
			}
		} else {
			for _, p := range slices.SortedStableFunc(slices.Values(processes), c.process) {
				got = append(got, p.PID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestUsage(t *testing.T) {
	for words, want := range map[string]string{
		"-n 0": "a number from 1", "-n x": "a number from 1", "-i 0": "seconds from 0.1", "-i NaN": "seconds from 0.1", "-s size": "expected one of tx", "x": "unexpected argument",
	} {
		if r := lines(t, strings.Fields(words)...); r.Code != 2 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: %+v", words, r)
		}
	}
	tool, k := machine()
	k.Fail = map[uint16]error{1: syscall.EPROTONOSUPPORT}
	if r := clitest.RunWords(tool, commandAlone(), []string{"top", "-b"}); r.Code != 1 || !strings.Contains(r.Err, "modprobe ib_core") {
		t.Error(r)
	}
}

// typist returns its keys one by one. After them each read returns nothing, as on a terminal.
type typist struct{ keys string }

func (k *typist) Read(b []byte) (int, error) {
	if k.keys == "" {
		time.Sleep(100 * time.Millisecond) // fake time of synctest
		return 0, io.EOF
	}
	b[0], k.keys = k.keys[0], k.keys[1:]
	return 1, nil
}

// TestLive runs top on a small screen until q is pressed.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool, _ := machine()
		v, err := parse(tool, new(cli.Words))
		if err != nil {
			t.Fatal(err)
		}
		if err := v.collect(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s := &screen{out: &out, in: &typist{">><rq"}, size: func() (int, int) { return 40, 10 }, restore: func() {}}
		if err := v.live(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if !v.reverse || sortKeys()[v.sort] != "cq" {
			t.Error(v.reverse, v.sort)
		}
		frames := strings.Split(out.String(), home)[1:]
		if len(frames) != 5 {
			t.Fatalf("%d frames: %q", len(frames), out.String())
		}
		for _, f := range frames {
			rows := strings.Split(f, "\r\n")
			for _, row := range rows {
				row = strings.NewReplacer(inverse, "", plain, "", clearLine, "", clearRest, "").Replace(row)
				if len([]rune(row)) > 40 || strings.Contains(row, "\x1b") {
					t.Errorf("%q", row)
				}
			}
			if len(rows) > 10 {
				t.Errorf("%d rows", len(rows))
			}
		}
	})
}

// TestScreenFails checks that a failing output ends top.
func TestScreenFails(t *testing.T) {
	tool, _ := machine()
	v, err := parse(tool, new(cli.Words))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.collect(); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	r.Close()
	s := &screen{out: w, size: func() (int, int) { return 80, 24 }, restore: func() {}}
	if err := v.live(t.Context(), s); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

func TestScaled(t *testing.T) {
	for n, want := range map[float64]string{0: "0B", 0.5: "0.5B", 12.4: "12B", 999: "999B", 999.6: "1.0kB", 99949: "99.9kB", 99960: "100kB", 1e9: "1.0GB", 1.8e19: "18.0EB", 2e22: "20000EB"} {
		if got := scaled(n, "B"); got != want {
			t.Errorf("%v: %s, want %s", n, got, want)
		}
	}
}

// commandAlone returns rdmalink with top as its only command.
func commandAlone() cli.Command { return cli.Root(Command()) }
