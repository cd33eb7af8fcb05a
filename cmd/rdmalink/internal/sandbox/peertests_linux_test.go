package sandbox

import (
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The package python3-pyverbs has rdma-core's tests as documentation, partly compressed.
const (
	python    = "/usr/bin/python3" // which finds the modules of packages
	peerTests = "/usr/share/doc/rdma-core/tests"
)

// peerTable holds the results of those tests on each kind of device, and newestPeerTable those of the
// newest version's tests.
var (
	//go:embed testdata/peertests.tsv
	peerTable string
	//go:embed testdata/peertests-newest.tsv
	newestPeerTable string
)

var peerKinds = []struct{ kind, device, gid string }{
	{"rxe", "rxe0", "1"}, {"siw", "siw0", "0"}, {"erdma", "erdma0", "0"}, {"mlx5", "mlx5_0", "1"},
}

// TestPeerTests runs rdma-core's tests of its Python modules in the sandbox, and compares
// their results with the table. Tests without a row skip themselves.
func TestPeerTests(t *testing.T) {
	long(t)
	onCores(t, func(t *testing.T, c core) {
		tests := unpacked(t, c)
		for i, k := range peerKinds {
			want, slow := column(t, c.table, i+1)
			line := append(peerLine(t, tests, k.device, k.gid), slow...)
			t.Run(k.kind, func(t *testing.T) { t.Parallel(); c.runPeerTests(t, want, line, "-d", k.kind) })
			if k.kind == "erdma" || k.kind == "mlx5" { // these have registers
				t.Run(k.kind+", trapped", func(t *testing.T) {
					needTrap(t)
					t.Parallel()
					if c.isNewest() && k.kind == "mlx5" { // the others take a minute, and most are those of version 44
						want, line = onlyTests(want, line, "test_rdmacm.")
					}
					c.runPeerTests(t, want, line, "-d", k.kind, "--trap")
				})
			}
		}
	})
}

// onlyTests leaves out the tests of other modules.
func onlyTests(want map[string]string, line []string, module string) (only map[string]string, _ []string) {
	only = make(map[string]string)
	for name, ends := range want {
		if strings.HasPrefix(name, module) {
			only[name] = ends
		} else {
			line = append(line, name)
		}
	}
	return only, line
}

// peerLine is the command line that runs the tests.
func peerLine(t *testing.T, tests, device, gid string) []string {
	t.Helper()
	const source = "../../../../test/sandbox/peertests.py"
	need(t, python)
	needFile(t, source)
	program, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	return []string{python, program, tests, device, gid, "198.51.100.1"}
}

// runPeerTests compares the results of the tests with the expected ones, and checks that the
// programs follow the rules of the device.
func (c core) runPeerTests(t *testing.T, want map[string]string, line []string, options ...string) {
	out, err := c.inside(t, options, line...)
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	ran := make(map[string]bool)
	for line := range strings.Lines(out) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != 3 {
			continue // tests print, too
		}
		if wanted := cellOf(want, cells[0]); cells[1] != wanted && !dependsOnMachine(cells[0]) {
			t.Errorf("%s: %s (%s), want %s", cells[0], cells[1], cells[2], wanted)
		}
		ran[cells[0]] = true
	}
	for name := range want {
		if !ran[name] {
			t.Errorf("%s was not run", name)
		}
	}
}

// mlx5Variants lists mlx5's other devices, with parts of the names of tests whose results
// differ from those on mlx5.
var mlx5Variants = []struct {
	kind, gid, ends string
	tests           []string
	newest          []string // of the newest version alone
}{
	{"mlx5-old", "1", "failed", []string{ // its UARs are there from the start, and completions can't name WQs
		"test_mlx5_uar.Mlx5UarTestCase.test_alloc_uar", "test_shared_pd.SharedPDTestCase.test_imported_rc_ex_rdma_write",
		"test_rss_traffic.RSSTrafficTest.test_rss_traffic", "test_device.SharedDMTest.test_import_dm"}, nil},
	{"mlx5-ib", "0", "skipped", []string{"test_addr.AHTest.test_create_ah_roce", // of RoCE, and of Ethernet:
		"test_flow.FlowTest.", "_raw_traffic", "test_domain_dump", "test_query_raw_qp", "raw_qp_no_attr", "raw_qp_with_attr", "raw_qp_ex_no_attr",
		"raw_qp_ex_with_attr", "test_rss_traffic."}, []string{"test_raw_qp_rate_limit_modify"}},
}

// TestPeerTestsOfVariants checks that the tests have the same results on mlx5's other devices
// as on mlx5, with a few exceptions.
func TestPeerTestsOfVariants(t *testing.T) {
	long(t)
	onCores(t, peerTestsOfVariants)
}

func peerTestsOfVariants(t *testing.T, c core) {
	tests := unpacked(t, c)
	const ofMLX5 = 4
	for _, v := range mlx5Variants {
		want, slow := column(t, c.table, ofMLX5)
		parts := v.tests
		if c.isNewest() {
			parts = slices.Concat(parts, v.newest)
		}
		for _, part := range parts {
			found := false
			for test, ends := range want {
				if strings.Contains(test, part) && ends == "ok" {
					want[test], found = v.ends, true
				}
			}
			if !found {
				t.Errorf("no test of %s is ok on mlx5", part)
			}
		}
		line := append(peerLine(t, tests, "mlx5_0", v.gid), slow...)
		t.Run(v.kind, func(t *testing.T) { t.Parallel(); c.runPeerTests(t, want, line, "-d", v.kind) })
	}
}

// TestPeerTestsOfEFA runs rdma-core's tests of EFA. All pass.
func TestPeerTestsOfEFA(t *testing.T) {
	long(t)
	onCores(t, func(t *testing.T, c core) {
		line := append([]string{"env", "MODULES=test_efa"}, peerLine(t, unpacked(t, c), "efa_0", "0")...)
		out, err := c.inside(t, []string{"-d", "efa"}, line...)
		passed := strings.Count(out, "\tok\t")
		least := 16
		if c.isNewest() {
			least = 21
		}
		if err != nil || passed < least || strings.Contains(out, "\tfailed\t") || strings.Contains(out, "\tskipped\t") {
			t.Errorf("%d passed, want %d: %v\n%s", passed, least, err, out)
		}
	})
}

// TestPeerTable checks that the results on soft RoCE and soft iWARP equal those on Linux 6.12,
// which another table holds.
func TestPeerTable(t *testing.T) {
	linux, err := os.ReadFile("../../../../test/peers.tsv")
	if err != nil {
		t.Fatal(err)
	}
	differ := map[string]bool{
		"rxe test_cq.CQTest.test_resize_cq":   true, // here sends have completed before the next call
		"siw test_qp.QPTest.test_query_rc_qp": true, // draws whether it wants what siw has not
	}
	onLinux := map[string]int{"rxe": 1, "siw": 3} // columns
	for i, k := range peerKinds[:2] {
		all := cellsOf(t, peerTable, i+1)
		for line := range strings.Lines(string(linux)) {
			cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if strings.HasPrefix(line, "#") || differ[k.kind+" "+cells[0]] {
				continue
			}
			here := strings.Trim(all[cells[0]], "()")
			if here == "" {
				here = "–"
			}
			if there := cells[onLinux[k.kind]]; here != there {
				t.Errorf("%s on %s: %s, on Linux %s", cells[0], k.kind, here, there)
			}
		}
	}
}

// TestPeerCounts checks the number of passing tests in docs/sandbox.md.
func TestPeerCounts(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	for version, table := range map[string]string{"44": peerTable, "65": newestPeerTable} {
		row := "| " + version + " |"
		for i := range peerKinds {
			ok := 0
			for _, cell := range cellsOf(t, table, i+1) {
				if strings.Trim(cell, "()") == "ok" {
					ok++
				}
			}
			row += fmt.Sprintf(" %d |", ok)
		}
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("the page does not have\n%s", row)
		}
	}
}

func cellOf(want map[string]string, name string) string {
	if w := want[name]; w != "" {
		return w
	}
	return "skipped"
}

// dependsOnMachine reports whether a test needs huge pages or a graphics card, which only some
// machines have.
func dependsOnMachine(name string) bool {
	return slices.ContainsFunc([]string{"huge", "dmabuf", "Dmabuf", "DmaBuf", "cuda"}, func(part string) bool { return strings.Contains(name, part) })
}

// column returns the results in the table for a kind, and the tests that take too long.
func column(t *testing.T, table string, i int) (want map[string]string, slow []string) {
	t.Helper()
	want = make(map[string]string)
	for name, cell := range cellsOf(t, table, i) {
		switch {
		case strings.HasPrefix(cell, "("):
			slow = append(slow, name)
		case cell == "–":
			want[name] = "skipped"
		default:
			want[name] = cell
		}
	}
	return want, slow
}

// cellsOf is a column of a table.
func cellsOf(t *testing.T, table string, i int) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) != len(peerKinds)+2 {
			t.Fatalf("%q: %d columns", line, len(cells))
		}
		all[cells[0]] = cells[i]
	}
	return all
}

// unpacked is a directory with the tests, uncompressed.
func unpacked(t *testing.T, c core) string {
	t.Helper()
	needFile(t, filepath.Join(c.tests, "run_tests.py"))
	dir := filepath.Join(t.TempDir(), "tests")
	err := errors.Join(os.CopyFS(dir, os.DirFS(c.tests)), filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".gz") {
			return err
		}
		return decompress(path)
	}))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func decompress(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(path, ".gz"), text, 0o600)
}
