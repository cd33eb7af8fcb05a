package house

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
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

func (s source) test() bool      { return strings.HasSuffix(s.path, "_test.go") }
func (s source) generated() bool { return ast.IsGenerated(s.syntax) }

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
	"mmap":                      {"internal/abi"},
	"mad":                       {"verbs"},
	"umad":                      {"mad", "verbs"},
	"fabric":                    {"mad", "verbs"},
	"internal/ibsimtest":        {"umad"},
	"netlinkrdma":               {"internal/abi", "internal/debug", "verbs"},
	"netlinkrdma/nltest":        {"internal/abi", "netlinkrdma", "verbs"},
	"internal/wait":             nil,
	"internal/hooks":            nil,
	"internal/ioctl":            {"internal/abi", "internal/debug", "internal/wait", "mmap"},
	"internal/kernel":           {"internal/abi", "internal/debug", "internal/ioctl", "netlinkrdma"},
	"internal/mmaptest":         {"mmap"},
	"internal/contract":         {"msg", "netlinkrdma", "netlinkrdma/nltest", "provider/all", "rdmacm", "rdmatest", "rsocket", "uverbs", "valkeyrdma", "verbs"},
	"internal/conntest":         {"rdmacm", "rdmatest"},
	"internal/fakeverbs":        {"internal/abi", "internal/ioctl", "internal/wait", "mmap"},
	"internal/fakeverbs/erdma":  {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/mlx5":   {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/rxe":    {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/siw":    {"internal/abi", "internal/fakeverbs", "internal/ioctl", "mmap"},
	"internal/fakeverbs/models": {"internal/fakeverbs/"},
	"internal/record":           {"internal/abi", "internal/fakeverbs", "internal/ioctl"},
	"internal/providertest":     {"internal/abi", "internal/fakeverbs", "internal/fakeverbs/", "internal/ioctl", "internal/kernel", "internal/record", "uverbs", "verbs", "verbs/flow"},
	"madtest":                   {"mad", "verbs"},
	"rdmatest":                  {"internal/abi", "internal/fakeverbs", "internal/fakeverbs/", "internal/ioctl", "internal/kernel", "netlinkrdma", "netlinkrdma/nltest", "provider/", "verbs"},
	"internal/driver":           {"internal/abi", "mmap", "verbs", "verbs/flow", "verbs/rss"},
	"internal/qpstate":          {"verbs"},
	"uverbs":                    {"internal/abi", "internal/driver", "internal/hooks", "internal/ioctl", "internal/kernel", "internal/qpstate", "internal/wait", "mmap", "netlinkrdma", "verbs", "verbs/flow", "verbs/rss"},
	"internal/rtnetlink":        nil,
	"internal/metrics":          {"internal/rtnetlink", "netlinkrdma", "uverbs", "verbs"},
	"internal/farewell":         {},
	"internal/perftest":         {"internal/farewell", "verbs"},
	"provider/":                 {"internal/abi", "internal/driver", "mmap", "verbs", "verbs/rss"},
	"provider/all":              {"provider/"},
	"internal/dialer":           nil,
	"rdmacm":                    {"internal/abi", "internal/dialer", "internal/hooks", "internal/kernel", "netlinkrdma", "uverbs", "verbs"},
	"internal/netconn":          {"internal/dialer", "internal/wait", "rdmacm", "uverbs", "verbs"},
	"rsocket":                   {"internal/netconn", "rdmacm", "uverbs", "verbs"},
	"valkeyrdma":                {"internal/netconn", "rdmacm", "uverbs", "verbs"},
	"msg":                       {"internal/hooks", "internal/wait", "rdmacm", "uverbs", "verbs"},
	"docs/concepts":             {"fabric", "mad", "madtest", "rdmacm", "rdmatest", "uverbs", "verbs"},
	"internal/pagetest":         nil,
	"internal/picture":          nil,
	"examples/":                 {"msg", "netlinkrdma", "provider/all", "rdmacm", "rsocket", "uverbs", "verbs", "verbs/flow"},
	"cmd/":                      {"cmd/rdmalink/internal/", "internal/perftest", "netlinkrdma", "provider/all", "rdmacm", "uverbs", "verbs"},
	"internal/debug":            nil,

	"cmd/rdmalink/internal/cli":           {"cmd/rdmalink/internal/host", "verbs"},
	"cmd/rdmalink/internal/cli/clitest":   {"cmd/rdmalink/internal/", "internal/abi", "netlinkrdma", "netlinkrdma/nltest", "verbs"},
	"cmd/rdmalink/internal/rdma":          {"cmd/rdmalink/internal/cli", "cmd/rdmalink/internal/host", "netlinkrdma", "verbs"},
	"cmd/rdmalink/internal/selftest":      {"cmd/rdmalink/internal/", "rdmacm", "uverbs", "verbs", "verbs/flow", "verbs/rss"},
	"cmd/rdmalink/internal/top":           {"cmd/rdmalink/internal/", "internal/metrics", "netlinkrdma"},
	"cmd/rdmalink/internal/watch":         {"cmd/rdmalink/internal/", "netlinkrdma", "uverbs", "verbs"},
	"cmd/rdmalink/internal/cm":            {"cmd/rdmalink/internal/", "rdmacm", "uverbs", "verbs"},
	"cmd/rdmalink/internal/devinfo":       {"cmd/rdmalink/internal/", "netlinkrdma", "uverbs", "verbs"},
	"cmd/rdmalink/internal/doctor":        {"cmd/rdmalink/internal/", "internal/rtnetlink", "netlinkrdma", "rdmacm", "uverbs", "verbs"},
	"cmd/rdmalink/internal/host":          {"internal/rtnetlink", "netlinkrdma", "rdmacm", "uverbs"},
	"cmd/rdmalink/internal/host/hosttest": {"cmd/rdmalink/internal/host", "internal/fakeverbs", "internal/fakeverbs/", "internal/ioctl", "internal/kernel", "internal/rtnetlink", "netlinkrdma", "netlinkrdma/nltest", "uverbs", "verbs"},
	"cmd/rdmalink/internal/ping":          {"cmd/rdmalink/internal/", "rdmacm"},
	"cmd/rdmalink/internal/cp":            {"cmd/rdmalink/internal/cli", "rsocket"},
	"cmd/rdmalink/internal/exporter":      {"cmd/rdmalink/internal/cli"},
	"cmd/rdmalink/internal/dump":          {"cmd/rdmalink/internal/"},
	"cmd/rdmalink/internal/dump/capture":  nil,
	"cmd/rdmalink/internal/dump/decode":   {"cmd/rdmalink/internal/table"},
	"cmd/rdmalink/internal/qpstates":      {"cmd/rdmalink/internal/", "internal/qpstate", "netlinkrdma", "verbs"},
	"cmd/rdmalink/internal/trace":         {"cmd/rdmalink/internal/", "internal/abi", "rdmacm"},
	"cmd/rdmalink/internal/trace/gen":     nil,
	"cmd/rdmalink/internal/fabriccmd":     {"cmd/rdmalink/internal/cli", "cmd/rdmalink/internal/table", "fabric", "mad", "umad", "verbs"},
	"cmd/rdmalink/internal/proxy":         {"cmd/rdmalink/internal/cli", "rsocket"},
	"cmd/rdmalink/internal/rping":         {"cmd/rdmalink/internal/", "rdmacm", "uverbs", "verbs"},
	"cmd/rdmalink/internal/sandbox":       {"cmd/rdmalink/internal/cli", "internal/abi", "internal/fakeverbs", "internal/fakeverbs/", "internal/ioctl", "internal/kernel", "internal/record", "mad", "madtest", "mmap", "netlinkrdma", "rdmatest", "verbs"},
	"cmd/rdmalink/internal/table":         {"cmd/rdmalink/internal/cli"},
	"cmd/rdmalink/internal/perfcmd":       {"cmd/rdmalink/internal/", "internal/farewell", "internal/perftest", "uverbs", "verbs"},
	"cmd/rdmalink/internal/peer":          {"rdmacm", "uverbs", "verbs"},
	"cmd/rdmalink/internal/pingpong":      {"cmd/rdmalink/internal/", "internal/farewell", "uverbs", "verbs"},
	"cmd/rdmalink/internal/perf":          {"cmd/rdmalink/internal/peer", "internal/farewell", "internal/perftest", "mmap", "rdmacm", "uverbs", "verbs"},

	"test/":             {"fabric", "mad", "umad", "mmap", "msg", "netlinkrdma", "provider/", "rdmacm", "rsocket", "uverbs", "test/", "verbs"},
	"test/bench/ring":   {"internal/ioctl", "internal/kernel", "provider/all", "rdmacm", "uverbs", "test/bench/", "verbs", "verbs/flow"},
	"internal/abi/gen/": {"internal/abi/gen/"},

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

// TestExampleSize bounds the size of examples, so that a reader can grasp them at once.
func TestExampleSize(t *testing.T) {
	const most = 160
	for _, s := range sources(t) {
		if n := bytes.Count(s.text, []byte("\n")); path.Dir(s.pkg) == "examples" && n > most {
			t.Errorf("%s has %d lines, %d are allowed", s.path, n, most)
		}
	}
}

// TestNoLooseEnds checks that the code has no notes of unfinished work.
func TestNoLooseEnds(t *testing.T) {
	loose := regexp.MustCompile(`(?i)\b(todo|fixme|xxx|for now|hack)\b`)
	for _, s := range sources(t) {
		for _, group := range s.syntax.Comments {
			if m := loose.FindString(group.Text()); m != "" && !s.generated() && s.pkg != "internal/house" {
				t.Errorf("%s: %q in a comment", s.path, m)
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
