package selftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/peer"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// machine has the network of a fabric's device. Each opening of the device is passed to opened, which
// may be nil.
func machine(t *testing.T, d *rdmatest.Device, opened func(*fakeverbs.Kernel)) *host.Machine {
	t.Helper()
	all := kernel.Registered()
	fabric := all[len(all)-1]
	m := &host.Machine{RDMA: &netlinkrdma.Client{Kernel: fabric.Netlink()},
		Proc: hosttest.Tree(map[string]string{"sys/kernel/osrelease": "6.12.117"})}
	dev, err := m.RDMA.DeviceByName(d.Name())
	if err != nil {
		t.Fatal(err)
	}
	ports, err := m.RDMA.Ports(dev.Index)
	if err != nil {
		t.Fatal(err)
	}
	m.Net = &hosttest.Netdevs{All: []addlink.Netdev{{Index: ports[0].NetdevIndex, Name: ports[0].NetdevName, Addrs: d.Addrs()}}}
	m.Open = func(name string) (*uverbs.Device, error) {
		devices, err := uverbs.Devices()
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(devices, func(info uverbs.DeviceInfo) bool { return info.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no device %s", name)
		}
		info := devices[i]
		file, err := fabric.OpenDevice(info.Node, 0)
		if err != nil {
			return nil, err
		}
		if opened != nil {
			opened(file.(*fakeverbs.Kernel))
		}
		info.Node = kernel.Node(file)
		return info.Open()
	}
	return m
}

type line struct{ Test, Result, Detail, Compared string }

// tried runs the tests, each post of which is made so often, and returns the lines by their results.
func tried(t *testing.T, m *host.Machine, d *rdmatest.Device, posts int) (lines map[result][]line, err error) {
	t.Helper()
	var b strings.Builder
	err = run(t.Context(), m, &cli.Output{JSON: true, Stdout: &b}, d.Name(), posts)
	var all []line
	if err := json.Unmarshal([]byte(b.String()), &all); err != nil {
		t.Fatal(err, b.String())
	}
	lines = make(map[result][]line)
	for _, l := range all {
		lines[result(l.Result)] = append(lines[result(l.Result)], l)
	}
	return lines, err
}

func names(lines []line) (all []string) {
	for _, l := range lines {
		all = append(all, l.Test)
	}
	return all
}

// starting returns the tests whose names begin with a word.
func starting(words ...string) (all []string) {
	for _, t := range tests {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(t.name, w) }) {
			all = append(all, t.name)
		}
	}
	return all
}

// What several kinds of devices lack.
var (
	hardware = []string{"CQ moderation", "time stamps", "wall clock", "region of no memory", "device memory", "on-demand paging", "region of all memory"}
	packets  = []string{"raw frames", "raw checksums", "raw segmentation", "VLAN tags", "VLAN stripping", "packet fields", "flow rules", "flow counters", "RSS"}
	mistakes = []string{"wrong key", "write behind a region", "write without the right", "read without the right", "wrong local key", "send behind a region",
		"receive that is too short", "receive without the right", "no receive", "no answer", "atomic at an odd address", "write behind a window",
		"window that was ended", "binding without the right"}
	iwarp = slices.Concat(starting("UC", "UD", "XRC", "DC"), hardware, packets, mistakes,
		[]string{"RC attributes", "SRQ, last receive", "windows of type 1", "windows of type 2"})
)

// kinds are the devices that have models.
var kinds = []struct {
	name   string
	device rdmatest.DeviceOptions
	opened func(*fakeverbs.Kernel)
	lacks  []string // the tests of what it does not offer
}{
	{name: "rxe", device: rdmatest.DeviceOptions{Kind: rdmatest.RXE}, lacks: slices.Concat(starting("XRC", "DC"), hardware, packets, []string{"write behind a window"})},
	{name: "siw", device: rdmatest.DeviceOptions{Kind: rdmatest.SIW}, lacks: slices.Concat(iwarp,
		[]string{"RC SEND with immediate", "RC WRITE with immediate", "RC COMPARE_SWAP", "RC FETCH_ADD", "solicited events", "SRQ that is resized", "CQ that is resized",
			"regions at an address", "region that is changed"})},
	{name: "erdma", device: rdmatest.DeviceOptions{Kind: rdmatest.ERDMA}, lacks: slices.Concat(iwarp, starting("SRQ"), []string{"CQ that is resized", "region that is changed"})},
	{name: "erdma-old", device: rdmatest.DeviceOptions{Kind: rdmatest.ERDMA}, opened: func(k *fakeverbs.Kernel) {
		o := fakeerdma.OptionsOf(k)
		o.NoAtomics, o.SDBType, o.SDBOffset = true, 1, 5
	}, lacks: slices.Concat(iwarp, starting("SRQ"), []string{"CQ that is resized", "region that is changed", "RC COMPARE_SWAP", "RC FETCH_ADD"})},
	{name: "erdma-roce", device: rdmatest.DeviceOptions{Kind: rdmatest.ERDMA, RoCE: true}, lacks: slices.Concat(starting("UC", "UD", "XRC", "DC", "SRQ"), hardware, packets,
		[]string{"RC attributes", "CQ that is resized", "region that is changed", "windows of type 1", "windows of type 2", "write behind a window", "window that was ended", "binding without the right"})},
	{name: "mlx5", device: rdmatest.DeviceOptions{Kind: rdmatest.MLX5}, lacks: []string{"SRQ that is resized"}},
	{name: "mlx5-old", device: rdmatest.DeviceOptions{Kind: rdmatest.MLX5}, opened: func(k *fakeverbs.Kernel) {
		o := fakemlx5.OptionsOf(k)
		o.StaticUARs, o.CQEVersion0 = true, true
	}, lacks: []string{"SRQ that is resized", "packet fields", "RSS"}},
	{name: "efa", device: rdmatest.DeviceOptions{Kind: rdmatest.EFA}, lacks: slices.Concat(starting("RC", "UC", "XRC", "DC", "SRQ"), hardware, packets, mistakes, []string{"UD replies", "events",
		"solicited events", "CQ that is resized", "regions at an address", "region that is changed", "windows of type 1", "windows of type 2", "flush, and a second life", "rdma_cm"})},
	{name: "mlx5-ib", device: rdmatest.DeviceOptions{Kind: rdmatest.MLX5, InfiniBand: true}, lacks: append(packets, "SRQ that is resized")},
}

// TestAll checks that each device passes, and that the list of unsupported operations is right.
func TestAll(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Hosts: []rdmatest.HostOptions{{Devices: []rdmatest.DeviceOptions{k.device}}}})
				d := f.Host(0).Device(0)
				lines, err := tried(t, machine(t, d, k.opened), d, manyTimes/10)
				if err != nil {
					t.Error(err)
				}
				for _, l := range lines[failed] {
					t.Errorf("%+v", l)
				}
				for _, l := range lines[ok] {
					if l.Compared == "" || l.Detail == "" {
						t.Errorf("%+v", l)
					}
				}
				lacks := k.lacks
				if k.device.Kind != rdmatest.EFA {
					lacks = slices.Concat(lacks, starting("SRD"))
				}
				want, got := slices.Compact(slices.Sorted(slices.Values(lacks))), slices.Sorted(slices.Values(names(lines[notOffered])))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("not offered (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestPages checks that the pages for owners of a card have each test, and no other. Rows of several types of
// queue pairs name the tests of RC.
func TestPages(t *testing.T) {
	for _, page := range []string{"card.md", "zh/card.md"} {
		b, err := os.ReadFile(filepath.Join("../../../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for row := range strings.Lines(string(b)) {
			if cells := strings.Split(row, "|"); len(cells) > 2 {
				for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
					got = append(got, m[1])
				}
			}
		}
		alike := []string{"UC", "UD", "XRC", "DC", "SRD"}
		for _, test := range tests {
			typ, rest, _ := strings.Cut(test.name, " ")
			if !slices.Contains(alike, typ) || !slices.Contains(starting("RC"), "RC "+rest) {
				want = append(want, test.name)
			}
		}
		slices.Sort(got)
		want = slices.Sorted(slices.Values(append(want, alike...)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-tests +page):\n%s", page, diff)
		}
	}
}

// TestInterrupted checks that the test that an interrupt ends is not reported as one that failed.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.RXE, Hosts: make([]rdmatest.HostOptions, 1)}).Host(0).Device(0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel) // while a test waits
		var b strings.Builder
		err := run(ctx, machine(t, d, nil), &cli.Output{Stdout: &b}, d.Name(), depth)
		if !errors.Is(err, peer.ErrInterrupted) || strings.Contains(b.String(), "FAILED") {
			t.Errorf("%v\n%s", err, &b)
		}
	})
}

// TestOthers checks that objects of another program stay as they are.
func TestOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5, Hosts: make([]rdmatest.HostOptions, 1)})
		d := f.Host(0).Device(0)
		b, err := newEnvironment(t.Context(), machine(t, d, nil), must(uverbs.Open(d.Name()))(t))
		if err != nil {
			t.Fatal(err)
		}
		p := must(b.pairWith(pairOptions{typ: verbs.QPTypeRC, srq: true}))(t)
		s, _, err := must(b.newFramer())(t).receiver(ipv4(frameTo, frameFrom))
		if err != nil {
			t.Fatal(err)
		}
		dm := must(b.dev.AllocDM(4096, 0))(t)
		b.keep(dm.Close)
		must(dm.WriteAt([]byte("mine"), 0))(t)
		before := d.Objects()
		if lines, err := tried(t, machine(t, d, nil), d, depth); err != nil {
			t.Error(err, lines[failed])
		}
		if diff := cmp.Diff(before, d.Objects()); diff != "" {
			t.Errorf("objects before and after (-want +got):\n%s", diff)
		}
		if err := p.message(message{op: verbs.OpSend, size: 100}); err != nil {
			t.Error(err)
		}
		if err := s.nothing(); err != nil {
			t.Error(err)
		}
		got := make([]byte, 4)
		if must(dm.ReadAt(got, 0))(t); string(got) != "mine" {
			t.Errorf("%q", got)
		}
		if err := errors.Join(b.close(), b.dev.Close()); err != nil {
			t.Error(err)
		}
	})
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestFound checks that a failure is printed in a line of its own and sets the exit code, and
// that later tests still run.
func TestFound(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	d := f.Host(0).Device(0)
	d.FailSend(3, verbs.StatusGeneralErr)
	var b strings.Builder
	err := run(t.Context(), machine(t, d, nil), &cli.Output{Stdout: &b}, d.Name(), depth)
	if err == nil || !strings.HasPrefix(err.Error(), "1 of ") {
		t.Error(err)
	}
	out := b.String()
	all := slices.Collect(strings.Lines(out))
	i := slices.IndexFunc(all, func(l string) bool { return strings.HasPrefix(l, "FAILED") })
	if i < 0 || !strings.Contains(all[i], "RC SEND") || strings.Count(out, "FAILED ") != 1 || !strings.HasPrefix(all[i+1], "ok      RC SEND with immediate") {
		t.Error(out)
	}
}
