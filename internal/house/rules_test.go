package house

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/goverbs/goverbs/"

// source is one Go file of the module.
type source struct {
	path, pkg string // from the top, with slashes
	text      []byte
	syntax    *ast.File
	imports   []string
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil || len(all) < 100 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

// parsed reads all files once, for all tests.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && p != top && (strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case d.IsDir() && p != top && isModule(p):
			return filepath.SkipDir // the benchmark has one that uses cgo, to compare with
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		s := source{}
		if s.text, err = os.ReadFile(p); err != nil {
			return err
		}
		if s.syntax, err = parser.ParseFile(token.NewFileSet(), p, s.text, parser.ParseComments); err != nil {
			return err
		}
		rel, err := filepath.Rel(top, p)
		s.path = filepath.ToSlash(rel)
		s.pkg = path.Dir(s.path)
		for _, i := range s.syntax.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, name)
		}
		all = append(all, s)
		return err
	})
	return all, err
})

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// TestMain skips the tests with -short. CI sets it under the race detector, which has nothing to find here.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		return
	}
	os.Exit(m.Run())
}

// TestImports checks that nothing uses cgo, and that a package uses unsafe in one file, named for it.
func TestImports(t *testing.T) {
	unsafeFile := make(map[string]string)
	for _, s := range sources(t) {
		for _, i := range s.imports {
			switch {
			case i == "C":
				t.Errorf("%s uses cgo", s.path)
			case i != "unsafe" || s.test() || s.pkg == "internal/abi":
			case !strings.HasSuffix(s.path, "_unsafe.go"):
				t.Errorf("%s imports unsafe, which only *_unsafe.go may", s.path)
			case unsafeFile[s.pkg] != "":
				t.Errorf("%s and %s both import unsafe", unsafeFile[s.pkg], s.path)
			default:
				unsafeFile[s.pkg] = s.path
			}
		}
	}
}

// mayImport is the direction of imports: for each package, or for all below a
// folder, which of the module's own it may use.
var mayImport = map[string][]string{
	"internal/abi":              nil,
	"verbs":                     {"internal/abi"},
	"verbs/flow":                {"internal/abi"},
	"verbs/rss":                 {"internal/abi"},
	"mmap":                      {"internal/abi", "internal/regions", "verbs"},
	"internal/regions":          nil,
	"ib/mad":                    {"verbs"},
	"ib/umad":                   {"ib/mad", "verbs"},
	"ib/fabric":                 {"ib/mad", "verbs"},
	"internal/ibsimtest":        {"ib/umad"},
	"netlinkrdma":               {"internal/abi", "internal/debug", "verbs"},
	"netlinkrdma/nltest":        {"internal/abi", "netlinkrdma", "verbs"},
	"internal/wait":             nil,
	"internal/hooks":            nil,
	"internal/ioctl":            {"internal/abi", "internal/debug", "internal/wait", "mmap"},
	"internal/kernel":           {"internal/abi", "internal/debug", "internal/ioctl", "netlinkrdma"},
	"internal/mmaptest":         {"mmap"},
	"internal/contract":         {"msg", "netlinkrdma", "netlinkrdma/nltest", "oob", "provider/all", "rdmacm", "rdmatest", "rsocket", "s3rdma", "topo", "transfer", "transfer/mooncake", "uverbs", "valkeyrdma", "verbs"},
	"internal/conntest":         {"internal/fakeverbs", "rdmacm", "rdmatest", "uverbs", "verbs"},
	"internal/fakeverbs":        {"internal/abi", "internal/ioctl", "internal/procmaps", "internal/wait", "mmap"},
	"internal/procmaps":         {},
	"internal/fakeverbs/efa":    {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/erdma":  {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/mlx5":   {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/rxe":    {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/siw":    {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/models": {"internal/fakeverbs/"},
	"internal/ibcm":             {},
	"internal/roce":             {},
	"internal/record":           {"internal/abi", "internal/fakeverbs", "internal/ioctl"},
	"internal/providertest":     {"internal/abi", "internal/fakeverbs", "internal/fakeverbs/", "internal/ioctl", "internal/kernel", "internal/record", "internal/regions", "mmap", "uverbs", "verbs", "verbs/flow"},
	"ib/madtest":                {"ib/mad", "verbs"},
	"rdmatest":                  {"internal/abi", "internal/fakeverbs", "internal/fakeverbs/", "internal/ibcm", "internal/ioctl", "internal/kernel", "internal/qpstate", "internal/roce", "netlinkrdma", "netlinkrdma/nltest", "provider/", "verbs"},
	"internal/driver":           {"internal/abi", "mmap", "verbs", "verbs/flow", "verbs/rss"},
	"internal/qpstate":          {"verbs"},
	"uverbs":                    {"internal/abi", "internal/driver", "internal/hooks", "internal/ioctl", "internal/kernel", "internal/netif", "internal/qpstate", "internal/wait", "mmap", "netlinkrdma", "verbs", "verbs/flow", "verbs/rss"},
	"internal/rtnetlink":        nil,
	"internal/netif":            {"verbs"},
	"internal/metrics":          {"internal/rtnetlink", "netlinkrdma", "uverbs", "verbs"},
	"internal/addlink":          {"internal/rtnetlink", "netlinkrdma"},
	"netlinkrdma/softlink":      {"internal/addlink", "netlinkrdma", "verbs"},
	"internal/giveup":           {},
	"internal/perftest":         {"internal/giveup", "verbs"},
	"provider/":                 {"internal/abi", "internal/driver", "mmap", "verbs", "verbs/rss"},
	"provider/all":              {"provider/"},
	"topo":                      {"verbs"},
	"internal/topotest":         nil,
	"internal/dialer":           {"verbs"},
	"internal/onesided":         {"verbs"},
	"internal/conn":             {"internal/hooks", "uverbs", "verbs"},
	"oob":                       {"internal/conn", "internal/dialer", "internal/hooks", "internal/qpstate", "rdmacm", "uverbs", "verbs"},
	"rdmacm":                    {"internal/abi", "internal/conn", "internal/dialer", "internal/hooks", "internal/kernel", "internal/netif", "internal/qpstate", "netlinkrdma", "uverbs", "verbs"},
	"internal/accept":           {"internal/conn", "oob", "rdmacm"},
	"internal/netconn":          {"internal/accept", "internal/conn", "internal/dialer", "internal/wait", "oob", "rdmacm", "uverbs", "verbs"},
	"redial":                    {"internal/dialer", "rdmacm", "verbs"},
	"rsocket":                   {"internal/conn", "internal/dialer", "internal/netconn", "oob", "rdmacm", "uverbs", "verbs"},
	"valkeyrdma":                {"internal/conn", "internal/dialer", "internal/netconn", "rdmacm", "uverbs", "verbs"},
	"msg":                       {"internal/accept", "internal/conn", "internal/dialer", "internal/hooks", "internal/onesided", "internal/wait", "oob", "rdmacm", "uverbs", "verbs"},
	"internal/foreign":          {"oob", "uverbs"},
	"transfer":                  {"internal/dialer", "internal/foreign", "internal/onesided", "oob", "rdmacm", "topo", "uverbs", "verbs"},
	"transfer/mooncake":         {"internal/conn", "internal/foreign", "internal/hooks", "oob", "rdmacm", "transfer", "uverbs", "verbs"},
	"s3rdma":                    {"uverbs", "verbs"},
	"docs/concepts":             {"ib/fabric", "ib/mad", "ib/madtest", "rdmacm", "rdmatest", "uverbs", "verbs"},
	"internal/pagetest":         nil,
	"internal/picture":          nil,
	"examples/":                 {"msg", "netlinkrdma", "oob", "provider/all", "rdmacm", "redial", "rsocket", "s3rdma", "uverbs", "verbs", "verbs/flow"},
	"cmd/":                      {"cmd/rdmalink/internal/", "internal/perftest", "netlinkrdma", "provider/all", "rdmacm", "uverbs", "verbs"},
	"internal/debug":            nil,

	"cmd/rdmalink/internal/cli":           {"cmd/rdmalink/internal/host", "verbs"},
	"cmd/rdmalink/internal/cli/clitest":   {"cmd/rdmalink/internal/", "internal/abi", "netlinkrdma", "netlinkrdma/nltest", "verbs"},
	"cmd/rdmalink/internal/rdma":          {"cmd/rdmalink/internal/cli", "cmd/rdmalink/internal/host", "internal/addlink", "netlinkrdma", "verbs"},
	"cmd/rdmalink/internal/selftest":      {"cmd/rdmalink/internal/", "rdmacm", "uverbs", "verbs", "verbs/flow", "verbs/rss"},
	"cmd/rdmalink/internal/top":           {"cmd/rdmalink/internal/", "internal/metrics", "netlinkrdma"},
	"cmd/rdmalink/internal/watch":         {"cmd/rdmalink/internal/", "netlinkrdma", "uverbs", "verbs"},
	"cmd/rdmalink/internal/devinfo":       {"cmd/rdmalink/internal/", "internal/addlink", "internal/netif", "netlinkrdma", "uverbs", "verbs"},
	"cmd/rdmalink/internal/doctor":        {"cmd/rdmalink/internal/", "internal/addlink", "internal/rtnetlink", "netlinkrdma", "rdmacm", "uverbs", "verbs"},
	"cmd/rdmalink/internal/host":          {"internal/addlink", "internal/rtnetlink", "netlinkrdma", "rdmacm", "uverbs"},
	"cmd/rdmalink/internal/host/hosttest": {"cmd/rdmalink/internal/host", "internal/addlink", "internal/fakeverbs", "internal/fakeverbs/", "internal/ioctl", "internal/kernel", "internal/rtnetlink", "netlinkrdma", "netlinkrdma/nltest", "uverbs", "verbs"},
	"cmd/rdmalink/internal/ping":          {"cmd/rdmalink/internal/", "rdmacm", "verbs"},
	"cmd/rdmalink/internal/cp":            {"cmd/rdmalink/internal/cli", "rsocket"},
	"cmd/rdmalink/internal/exporter":      {"cmd/rdmalink/internal/cli"},
	"cmd/rdmalink/internal/dump":          {"cmd/rdmalink/internal/"},
	"cmd/rdmalink/internal/dump/capture":  nil,
	"cmd/rdmalink/internal/dump/decode":   {"cmd/rdmalink/internal/table", "internal/roce"},
	"cmd/rdmalink/internal/qpstates":      {"cmd/rdmalink/internal/", "internal/qpstate", "netlinkrdma", "verbs"},
	"cmd/rdmalink/internal/topocmd":       {"cmd/rdmalink/internal/", "topo"},
	"cmd/rdmalink/internal/trace":         {"cmd/rdmalink/internal/", "internal/abi", "rdmacm"},
	"cmd/rdmalink/internal/fabriccmd":     {"cmd/rdmalink/internal/cli", "cmd/rdmalink/internal/table", "ib/fabric", "ib/mad", "ib/umad", "verbs"},
	"cmd/rdmalink/internal/proxy":         {"cmd/rdmalink/internal/cli", "rsocket"},
	"cmd/rdmalink/internal/rping":         {"cmd/rdmalink/internal/", "rdmacm", "uverbs", "verbs"},
	"cmd/rdmalink/internal/sandbox":       {"cmd/rdmalink/internal/cli", "internal/abi", "internal/fakeverbs", "internal/fakeverbs/", "internal/ioctl", "internal/kernel", "internal/procmaps", "internal/record", "internal/roce", "ib/mad", "ib/madtest", "mmap", "netlinkrdma", "rdmatest", "verbs"},
	"cmd/rdmalink/internal/table":         {"cmd/rdmalink/internal/cli"},
	"cmd/rdmalink/internal/perfcmd":       {"cmd/rdmalink/internal/", "internal/giveup", "internal/perftest", "uverbs", "verbs"},
	"cmd/rdmalink/internal/peer":          {"rdmacm", "uverbs", "verbs"},
	"cmd/rdmalink/internal/pingpong":      {"cmd/rdmalink/internal/", "internal/giveup", "uverbs", "verbs"},
	"cmd/rdmalink/internal/perf":          {"cmd/rdmalink/internal/peer", "internal/giveup", "internal/perftest", "internal/qpstate", "mmap", "rdmacm", "uverbs", "verbs"},

	"test/":              {"ib/fabric", "ib/mad", "ib/umad", "internal/regions", "mmap", "msg", "netlinkrdma", "oob", "provider/", "rdmacm", "rsocket", "transfer", "transfer/mooncake", "uverbs", "test/", "verbs"},
	"test/bench/devices": {"rdmacm", "rdmatest", "uverbs", "test/bench/result", "verbs"},
	"test/bench/ring":    {"internal/ioctl", "internal/kernel", "provider/all", "rdmacm", "uverbs", "test/bench/", "verbs", "verbs/flow"},
	"internal/abi/gen/":  {"internal/abi/gen/"},

	"internal/verbtable":     {"internal/abi/gen/headers", "rdmatest", "uverbs", "verbs"},
	"internal/verbtable/gen": {"internal/verbtable"},
	"internal/house":         {"internal/pagetest"},
}

func matches(pkg, pattern string) bool {
	return pkg == pattern || strings.HasSuffix(pattern, "/") && strings.HasPrefix(pkg+"/", pattern)
}

// rule returns the most specific entry of mayImport.
func rule(pkg string) (allowed []string, ok bool) {
	best := ""
	for pattern, a := range mayImport {
		if matches(pkg, pattern) && len(pattern) >= len(best) {
			best, allowed, ok = pattern, a, true
		}
	}
	return allowed, ok
}

func TestImportDirection(t *testing.T) {
	for _, s := range sources(t) {
		allowed, ok := rule(s.pkg)
		if !ok {
			t.Errorf("%s: say in mayImport what %s may import", s.path, s.pkg)
		}
		if s.test() {
			continue
		}
	next:
		for _, i := range s.imports {
			own, ok := strings.CutPrefix(i, module)
			if !ok {
				continue
			}
			for _, a := range allowed {
				if matches(own, a) {
					continue next
				}
			}
			t.Errorf("%s imports %s", s.path, own)
		}
	}
}

// architectureRow is a row of the table of packages in ARCHITECTURE.md.
var architectureRow = regexp.MustCompile("(?m)^(\\| `([\\w/]+)` \\| [^|]* \\|) .* ?\\|$")

// TestArchitecture compares the table of packages with the imports of each. make api writes it.
func TestArchitecture(t *testing.T) {
	imports := make(map[string][]string)
	for _, s := range sources(t) {
		for _, i := range s.imports {
			if own, ok := strings.CutPrefix(i, module); ok && !s.test() && !slices.Contains(imports[s.pkg], own) {
				imports[s.pkg] = append(imports[s.pkg], own)
			}
		}
		if imports[s.pkg] == nil {
			imports[s.pkg] = []string{}
		}
	}
	page := filepath.Join(top, "ARCHITECTURE.md")
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, packages, found := strings.Cut(string(old), "## Packages")
	packages, _, _ = strings.Cut(packages, "\n## ")
	if n := len(architectureRow.FindAllString(packages, -1)); !found || n < 20 {
		t.Fatalf("%d packages", n)
	}
	text := architectureRow.ReplaceAllStringFunc(packages, func(row string) string {
		m := architectureRow.FindStringSubmatch(row)
		all, ok := imports[m[2]]
		if !ok {
			t.Errorf("there is no package %s", m[2])
		}
		slices.Sort(all)
		return m[1] + " " + cmp.Or(strings.Join(all, ", "), "nothing") + " |"
	})
	text = strings.Replace(string(old), packages, text, 1)
	switch {
	case *writeAPI:
		if err := os.WriteFile(page, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	case text != string(old):
		t.Error("the imports in ARCHITECTURE.md are not those of the packages: run make api")
	}
}

// errorPrefix matches the start of an error whose text begins with the name of a package.
var errorPrefix = regexp.MustCompile(`(?:fmt\.Errorf|errors\.New)\(["\x60](\w+): `)

// TestErrorPrefixes checks that no package but a command's puts its name before its errors. They begin with the
// operation, and names would pile up where packages wrap each other.
func TestErrorPrefixes(t *testing.T) {
	for _, s := range sources(t) {
		for _, m := range errorPrefix.FindAllSubmatch(s.text, -1) {
			if name := string(m[1]); name == path.Base(s.pkg) && !s.test() && !strings.HasPrefix(s.pkg, "cmd/") {
				t.Errorf("%s: the error %s begins with the name of the package", s.path, m[0])
			}
		}
	}
}

// TestRulesHold gives the checks the mistakes that they look for.
func TestRulesHold(t *testing.T) {
	for pkg, want := range map[string]bool{"uverbs": true, "provider/siw": true, "mmap/sub": false, "cmd/rdmalink": true, "elsewhere": false} {
		if _, ok := rule(pkg); ok != want {
			t.Errorf("%s: %v", pkg, ok)
		}
	}
	if a, _ := rule("provider/siw"); matches("internal/ioctl", a[0]) || matches("provider/all", a[0]) {
		t.Error("a provider may import too much")
	}
}
