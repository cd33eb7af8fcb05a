package topo

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/internal/topotest"
)

var rdmaTopo = flag.String("rdma_topo", "", "path of rdma-core's rdma_topo, whose output on the trees is written to testdata")

// trees returns the names of the trees in testdata.
func trees(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.tree")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d trees, %v", len(files), err)
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".tree"))
	}
	return names
}

// TestAsRdmaTopo compares DirectNICs with the recorded output of rdma_topo on the same tree. Where that has an error, so
// has DirectNICs.
func TestAsRdmaTopo(t *testing.T) {
	supported := 0
	for _, name := range trees(t) {
		t.Run(name, func(t *testing.T) {
			tree := topotest.Read(t, "testdata/"+name+".tree")
			golden := "testdata/" + name + ".json"
			if *rdmaTopo != "" {
				record(t, tree, golden)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			top, err := Read(tree)
			if err != nil {
				t.Fatal(err)
			}
			all, err := top.DirectNICs()
			if bytes.HasPrefix(want, []byte("E: ")) {
				if !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("%+v, %v; rdma_topo has %s", all, err, want)
				}
				return
			}
			supported++
			if err != nil {
				t.Fatalf("%v; rdma_topo has %s", err, want)
			}
			got, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(normal(t, want), normal(t, got)); diff != "" {
				t.Errorf("(-rdma_topo +DirectNICs)\n%s", diff)
			}
		})
	}
	if supported < 4 {
		t.Errorf("%d trees are of platforms that rdma_topo supports", supported)
	}
}

// record writes the output of rdma_topo on a tree to a file.
func record(t *testing.T, tree fs.FS, golden string) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, tree); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(*rdmaTopo, "topology", "-j")
	cmd.Env = append(os.Environ(), "RDMA_TOPO_DEVDIR="+filepath.Join(dir, pciDir))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err := os.WriteFile(golden, out, 0o666); err != nil {
		t.Fatal(err)
	}
}

// normal decodes JSON, and sorts its lists of texts, which rdma_topo has in the order of a directory or of a hash.
func normal(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	sortTexts(v)
	return v
}

func sortTexts(v any) {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			if _, ok := v[0].(string); ok {
				slices.SortFunc(v, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
		}
		for _, e := range v {
			sortTexts(e)
		}
	case map[string]any:
		for _, e := range v {
			sortTexts(e)
		}
	}
}

func tree(t *testing.T, name string) *Topology {
	t.Helper()
	top, err := Read(topotest.Read(t, "testdata/"+name+".tree"))
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestNearest checks that each NIC has the GPUs that share the most with it.
func TestNearest(t *testing.T) {
	for name, want := range map[string][]string{
		"h100": {
			"mlx5_0 0000:1b:00.0 same switch", "mlx5_1 0000:1b:00.0 same NUMA node", "mlx5_1 0000:3d:00.0 same NUMA node",
			"mlx5_2 0000:3d:00.0 same switch", "mlx5_3 0000:9d:00.0 same switch"},
		"gb300": {
			"mlx5_0 0009:06:00.0 same root port", "mlx5_1 0019:06:00.0 same root port", "mlx5_2 0019:06:00.0 same root port"},
		"mi300x":    {"bnxt_re0 0000:05:00.0 same switch", "bnxt_re1 0000:85:00.0 same switch"},
		"p5":        {"rdmap79s0 0000:53:00.0 same switch", "rdmap80s0 0000:53:00.0 same switch"},
		"twosocket": nil,
	} {
		top := tree(t, name)
		var got []string
		for _, d := range top.Devices {
			for _, gpu := range top.Nearest(d, GPU) {
				if len(d.RDMA) > 0 {
					got = append(got, fmt.Sprintf("%s %s %v", d.RDMA[0], gpu.Address, Between(d, gpu)))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestPlaces checks that devices are found by their names, with the bridges above them.
func TestPlaces(t *testing.T) {
	top := tree(t, "h100")
	d := top.RDMA("mlx5_0")
	if d == nil || d != top.Device("0000:18:00.0") || d.Root().Address != "0000:15:01.0" || d.Switch().Address != "0000:16:00.0" || d.NUMANode != 0 ||
		d.ProductName != "NVIDIA ConnectX-7" || d.SerialNumber != "MT2301X00001" {
		t.Errorf("%+v", d)
	}
	if d := top.RDMA("mlx5_1"); d.Switch() != nil || d.Root().Address != "0000:15:03.0" {
		t.Errorf("%+v is below a switch", d)
	}
	if top.RDMA("rxe0") != nil || top.Device("0000:18:00.7") != nil {
		t.Error("there is no such device")
	}
	if d := top.Device("0000:03:00.0"); d.Kind != Other {
		t.Errorf("the graphics of the board are of kind %v", d.Kind)
	}
	for want, pair := range map[Distance][2]string{
		SameSwitch: {"0000:18:00.0", "0000:1c:00.0"},
		SameNode:   {"0000:18:00.0", "0000:29:00.0"},
		OtherNode:  {"0000:18:00.0", "0000:9d:00.0"},
	} {
		if got := Between(top.Device(pair[0]), top.Device(pair[1])); got != want {
			t.Errorf("%v: %v, want %v", pair, got, want)
		}
	}
	top = tree(t, "p5")
	if got := Between(top.RDMA("rdmap164s0"), top.RDMA("rdmap79s0")); got != Unknown {
		t.Errorf("%v, and one has no NUMA node", got)
	}
	gb := tree(t, "gb300")
	if nic := gb.RDMA("mlx5_0"); len(nic.DataDirect) != 1 || nic.DataDirect[0].Address != "0009:03:00.0" || nic.DataDirect[0].Kind != DataDirect {
		t.Errorf("%+v", nic)
	}
}

// TestBetweenAllocs checks that Between, which NICs calls for each pair of a NIC and a GPU, allocates nothing.
func TestBetweenAllocs(t *testing.T) {
	top := tree(t, "h100")
	a, b := top.Device("0000:18:00.0"), top.Device("0000:1c:00.0")
	if n := testing.AllocsPerRun(1000, func() { Between(a, b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNICs checks that hosts that rdma_topo refuses have NICs too.
func TestNICs(t *testing.T) {
	var got []string
	for _, c := range tree(t, "mi300x").NICs() {
		got = append(got, fmt.Sprint(c.NIC, c.GPUs, *c.NUMANode, c.Subsystems[c.NIC]["infiniband"], c.Subsystems[c.GPUs[0]]["drm"]))
	}
	want := []string{"0000:06:00.0 [0000:05:00.0] 0 [bnxt_re0] [card1 renderD128]", "0000:86:00.0 [0000:85:00.0] 1 [bnxt_re1] [card2 renderD136]"}
	for i := range want {
		want[i] = strings.Replace(want[i], " [", "[", 1)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if c := tree(t, "gb300").NICs(); len(c) != 3 || c[0].DataDirect != "0009:03:00.0" || c[0].GPUs[0] != "0009:06:00.0" {
		t.Errorf("%+v", c)
	}
}

// TestSubfunction checks that an RDMA device of a subfunction belongs to the function above it. One
// in software belongs to none.
func TestSubfunction(t *testing.T) {
	tree := topotest.Read(t, "testdata/twosocket.tree")
	topotest.Link(tree, "../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/mlx5_core.sf.2/infiniband/mlx5_9", "class/infiniband/mlx5_9")
	topotest.Link(tree, "../../devices/virtual/infiniband/rxe0", "class/infiniband/rxe0")
	top, err := Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	if d := top.RDMA("mlx5_9"); d == nil || d.Address != "0000:3b:00.0" || top.RDMA("rxe0") != nil {
		t.Errorf("%+v, %+v", d, top.RDMA("rxe0"))
	}
	for _, c := range top.NICs() {
		if slices.Contains(c.Subsystems[c.NIC]["infiniband"], "mlx5_9") {
			t.Errorf("rdma_topo has no subfunctions: %+v", c)
		}
	}
}

// TestUnexpected checks that Data Direct functions in trees that are not as they should be have clear
// errors, as with rdma_topo.
func TestUnexpected(t *testing.T) {
	good, err := os.ReadFile("testdata/gb300.tree")
	if err != nil {
		t.Fatal(err)
	}
	rtx, err := os.ReadFile("testdata/rtxpro.tree")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tree     []byte
		old, new string
		want     string
	}{
		"no V3":            {good, ` v3=22bb`, ``, "no V3"},
		"another V3":       {good, "0009:03:00.0 15b3:2100 080100 numa=0 name=\"NVIDIA ConnectX-8 DMA\" sn=MT2450X00001 v3=11aa", "0009:03:00.0 15b3:2100 080100 v3=33", "no NIC with the same V3"},
		"no Grace":         {good, "10de:22b8", "8086:352a", "not below a switch"},
		"no GPU":           {good, "10de:31c2 030200", "10de:31c2 020000", "0 GPUs"},
		"GPU elsewhere":    {good, "0009:05:00.0 15b3:197c", "0009:05:00.0 1000:c030", "another path"},
		"one more":         {good, "        0009:04:00.0 15b3", "        0009:04:00.1 8086:1 020000\n        0009:04:00.0 15b3", "8 functions"},
		"no first switch":  {rtx, "0000:19:00.0 15b3:1979", "0000:19:00.0 1000:c030", "not below two switches"},
		"no NIC there":     {rtx, "0000:18:00.0 15b3:1023", "0000:18:00.0 15b3:1017", "no ConnectX below"},
		"two ports":        {rtx, "      0000:17:01.0 15b3", "      0000:17:02.0 15b3:1979 060400\n        0000:20:00.0 15b3:1023 020000\n      0000:17:01.0 15b3", "2 ports with NICs"},
		"a node without":   {[]byte("pci0000:00\n  0000:00:01.0 8086:1 060400 numa=0\n    0000:01:00.0 10de:2330 030200 numa=0\n"), "", "", "NUMA node 0 has 0"},
		"no node":          {[]byte("pci0000:00\n  0000:00:01.0 8086:1 060400\n    0000:01:00.0 10de:2330 030200\n"), "", "", "no PCI function has a NUMA node"},
		"nothing of these": {[]byte("pci0000:00\n  0000:00:01.0 8086:1 060400 numa=0\n"), "", "", "no ConnectX that shares"},
	} {
		text := string(c.tree)
		if text = strings.ReplaceAll(text, c.old, c.new); c.old != "" && text == string(c.tree) {
			t.Fatalf("%s: nothing is replaced", name)
		}
		top, err := Read(topotest.Parse(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if all, err := top.DirectNICs(); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %s", name, all, err, c.want)
		}
	}
}

// denying is a tree whose vital product data may not be read.
type denying struct{ fs.FS }

func (d denying) Open(name string) (fs.File, error) {
	if filepath.Base(name) == "vpd" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

func (d denying) ReadLink(name string) (string, error)   { return fs.ReadLink(d.FS, name) }
func (d denying) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(d.FS, name) }

// TestNotRoot checks that without the vital product data there is no wrong answer.
func TestNotRoot(t *testing.T) {
	top, err := Read(denying{topotest.Read(t, "testdata/gb300.tree")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := top.DirectNICs(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "only root") {
		t.Error(err)
	}
	if n := len(top.NICs()); n != 3 {
		t.Errorf("%d NICs", n)
	}
}

// TestHostile checks that trees that lie yield errors or something of a bounded size.
func TestHostile(t *testing.T) {
	tree := make(fstest.MapFS)
	if _, err := Read(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty tree: %v", err)
	}
	link := func(to, name string) { topotest.Link(tree, to, path.Join(pciDir, name)) }
	link("../../../devices/0000:00:02.0/0000:00:01.0", "0000:00:01.0") // each other's parent
	link("../../../devices/0000:00:01.0/0000:00:02.0", "0000:00:02.0")
	link("../../..", "junk\x1b[2J")
	write := func(name, text string) { tree[path.Join(pciDir, name)] = &fstest.MapFile{Data: []byte(text)} }
	write("0000:00:04.0/numa_node", "99999999999999999999999\n")
	write("0000:00:04.0/modalias", strings.Repeat("pci:v000010DE", 1<<16))
	write("0000:00:05.0/numa_node", "-2147483648\n")
	write("0000:00:05.0/modalias", "pci:v000015B3d00001021sv00000000sd00000000bc02sc00i00\n")
	write("0000:00:05.0/vpd", strings.Repeat("\x82\xff", 1<<17))
	write("0000:00:05.0/config", strings.Repeat("\x01\x00\x01\x10", 1<<17))
	write("0000:00:05.0/infiniband", "a file")
	write("0000:00:06.0/modalias/x", "a directory")
	for i := range maxDepth + 100 { // deeper than PCI can be
		name := func(i int) string { return fmt.Sprintf("0001:%02x:%02x.0", i>>8, i&255) }
		link("../../../devices/"+name(i)+"/"+name(i+1), name(i+1))
	}
	dir := t.TempDir()
	if err := errors.Join(os.CopyFS(dir, tree), os.Symlink("0000:00:03.0", filepath.Join(dir, pciDir, "0000:00:03.0"))); err != nil { // to itself
		t.Fatal(err)
	}
	top, err := Read(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range top.Devices {
		if depth(d) > maxDepth || d.NUMANode != -1 {
			t.Errorf("%s is %d deep, NUMA node %d", d.Address, depth(d), d.NUMANode)
		}
	}
	if n := len(top.Devices); n != 6+maxDepth+100 {
		t.Errorf("%d devices", n)
	}
	if _, err := top.DirectNICs(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if n := top.NICs(); len(n) != 1 {
		t.Errorf("%+v", n)
	}
}

// TestPipe checks that a file that would block is not read.
func TestPipe(t *testing.T) {
	tree := topotest.Parse(t, "pci0000:00\n  0000:00:01.0 15b3:1021 020000 name=N sn=S v3=V\n")
	tree["devices/pci0000:00/0000:00:01.0/vpd"].Mode |= fs.ModeNamedPipe
	top, err := Read(tree)
	if err != nil || top.Devices[0].Kind != NIC || top.Devices[0].ProductName != "" {
		t.Errorf("%+v, %v", top, err)
	}
}

// endless is a tree whose directories have very many entries.
type endless struct{ fs.FS }

type endlessDir struct{ fs.ReadDirFile }

func (e endless) Open(name string) (fs.File, error) {
	f, err := e.FS.Open(name)
	if err == nil && name == pciDir {
		f = endlessDir{f.(fs.ReadDirFile)}
	}
	return f, err
}

func (endlessDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		return nil, errors.New("reads all")
	}
	return make([]fs.DirEntry, n), nil
}

// TestEndless checks that a directory is read up to a limit.
func TestEndless(t *testing.T) {
	if _, err := Read(endless{topotest.Read(t, "testdata/twosocket.tree")}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// FuzzVPD checks that no vital product data, or configuration space, breaks the parsers. What is
// found stands in it.
func FuzzVPD(f *testing.F) {
	f.Add(topotest.VPD("name", "sn", "v3"))
	f.Add(topotest.VPD("", "", strings.Repeat("x", 255)))
	f.Add(binary.LittleEndian.AppendUint32(make([]byte, 0x100), 0x0f|0x110<<20))
	f.Fuzz(func(t *testing.T, b []byte) {
		hasATS(b)
		v3, name, sn := parseVPD(b)
		for _, s := range []string{v3, name, sn} {
			if !bytes.Contains(b, []byte(s)) {
				t.Errorf("%q is not in %q", s, b)
			}
		}
	})
}

// TestParseVPD checks that what follows something that is not ASCII is ignored, as rdma_topo does.
func TestParseVPD(t *testing.T) {
	if v3, name, sn := parseVPD(topotest.VPD(" a name ", "SN1", "uuid")); v3 != "uuid" || name != "a name" || sn != "SN1" {
		t.Errorf("%q %q %q", v3, name, sn)
	}
	if v3, name, sn := parseVPD(topotest.VPD("name", "S\xff", "uuid")); v3 != "" || name != "name" || sn != "" {
		t.Errorf("%q %q %q", v3, name, sn)
	}
}
