//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goverbs/goverbs/test/gotest"
	"github.com/goverbs/goverbs/test/rig"
)

// testOptions are the flags of vm test.
type testOptions struct {
	series   string
	guests   int
	race     bool
	json     bool
	verbose  bool
	fresh    bool
	shuffle  string
	short    bool
	count    int
	tags     string
	run      string
	skip     string
	timeout  time.Duration
	packages []string
}

func parseTest(args []string, stderr io.Writer) (testOptions, error) {
	o := testOptions{packages: []string{"./..."}}
	fs := flag.NewFlagSet("vm test", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.series, "kernel", rig.Series[0], "kernel series")
	fs.IntVar(&o.guests, "guests", runtime.NumCPU(), "how many guests share the tests")
	fs.BoolVar(&o.race, "race", false, "with the race detector and checks of pointers; needs a C compiler")
	fs.BoolVar(&o.json, "json", false, "print events as go test -json does")
	fs.BoolVar(&o.verbose, "v", false, "print the output of tests that passed, too")
	fs.BoolVar(&o.fresh, "fresh", os.Getenv("CI") != "", "run tests that passed before with the same binaries on the same kernel, too; as with the variable CI")
	fs.StringVar(&o.shuffle, "shuffle", "off", "on runs tests in random order")
	fs.BoolVar(&o.short, "short", false, "as go test -short")
	fs.IntVar(&o.count, "count", 0, "run each test so often; implies -fresh")
	fs.StringVar(&o.tags, "tags", "vm", "build tags")
	fs.StringVar(&o.run, "run", "", "run the top-level tests that match this expression")
	fs.StringVar(&o.skip, "skip", "", "leave out the top-level tests that match this expression")
	fs.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long a guest may run")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		o.packages = fs.Args()
	}
	if o.guests < 1 {
		return o, fmt.Errorf("test: -guests %d: expected at least 1", o.guests)
	}
	o.fresh = o.fresh || o.count > 0
	o.count = max(o.count, 1)
	return o, nil
}

// A suite is the test binary of one package, with the names of its tests.
type suite struct {
	pkg, dir string
	binary   string
	key      string // key of its results in the cache
	tests    []string
}

// testGuests builds the test binaries of the packages, shares their tests out among guests, and
// prints what go test would print. The exit code is that of go test.
func testGuests(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parseTest(args, stderr)
	if err != nil {
		return 0, err
	}
	k, err := rig.Open(o.series)
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "vm-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	suites, err := buildSuites(ctx, o, tmp, stderr)
	if err != nil {
		return 0, err
	}
	if len(suites) == 0 { // go test would pass, and a mistyped name would go unnoticed
		return 0, fmt.Errorf("test: no test of %s matches -run %q -skip %q", strings.Join(o.packages, " "), o.run, o.skip)
	}
	cache, err := openResults(k, o)
	if err != nil {
		return 0, err
	}
	p := &printer{to: stdout, json: o.json, verbose: o.verbose, kept: make(map[string][]gotest.Event), failed: make(map[string]bool)}
	var left []*suite
	for _, s := range suites {
		if s.key, err = cache.key(s); err != nil {
			return 0, err
		}
		if events := cache.load(s.key); !o.fresh && events != nil {
			p.replay(s, events)
			continue
		}
		left = append(left, s)
	}
	code, err := p.play(ctx, k, o, tmp, deal(left, cache.times, o.guests), stderr)
	if err != nil {
		return 0, err
	}
	for _, s := range left {
		if !p.finish(s) {
			code = max(code, 1)
		} else if err := cache.store(s.key, p.kept[s.pkg]); err != nil {
			return 0, err
		}
	}
	return code, cache.remember(p.results.Times)
}

// buildSuites compiles the test binaries and asks each for its tests.
func buildSuites(ctx context.Context, o testOptions, tmp string, stderr io.Writer) ([]*suite, error) {
	tags, env := o.tags, []string{"CGO_ENABLED=0"}
	build := []string{"test", "-c", "-o", tmp + "/"}
	if o.race {
		tags, env = o.tags+",netgo,osusergo", []string{"CGO_ENABLED=1"}
		build = append(build, "-race", "-ldflags", "-linkmode=external -extldflags=-static")
	}
	env = append(os.Environ(), env...)
	list := exec.CommandContext(ctx, "go", slices.Concat([]string{"list", "-tags", tags, "-f", `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}`}, o.packages)...)
	list.Env, list.Stderr = env, stderr
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var suites []*suite
	var paths []string
	for line := range strings.Lines(string(text)) {
		pkg, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		suites = append(suites, &suite{pkg: pkg, dir: dir, binary: filepath.Join(tmp, filepath.Base(pkg)+".test")})
		paths = append(paths, pkg)
	}
	if len(suites) == 0 {
		return nil, fmt.Errorf("no tests in %s", strings.Join(o.packages, " "))
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat(build, []string{"-tags", tags}, paths)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, stderr, stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build the test binaries: %w", err)
	}
	var some []*suite
	for _, s := range suites {
		if err := s.list(ctx, o); err != nil {
			return nil, err
		}
		if len(s.tests) > 0 {
			some = append(some, s)
		}
	}
	return some, nil
}

// list sets the tests to run from the binary's list, -run and -skip. It counts examples and
// fuzz targets as tests.
func (s *suite) list(ctx context.Context, o testOptions) error {
	cmd := exec.CommandContext(ctx, s.binary, "-test.list", ".")
	cmd.Dir = s.dir
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the tests of %s: %w", s.pkg, err)
	}
	run, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return fmt.Errorf("-skip: %w", err)
	}
	for _, name := range strings.Fields(string(out)) {
		if strings.HasPrefix(name, "Benchmark") || !run.MatchString(name) || o.skip != "" && skip.MatchString(name) {
			continue
		}
		s.tests = append(s.tests, name)
	}
	return nil
}

// A share holds the tests that one guest runs, by suite.
type share map[*suite][]string

// deal distributes the tests among the guests. It assigns the longest test first, and each test
// to the guest with the smallest total time. A test of unknown time counts as one second.
func deal(suites []*suite, times map[string]float64, guests int) []share {
	type item struct {
		s    *suite
		test string
		time float64
	}
	var items []item
	for _, s := range suites {
		for _, t := range s.tests {
			took, ok := times[s.pkg+" "+t]
			if !ok {
				took = 1
			}
			items = append(items, item{s, t, took + 0.01})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int {
		switch {
		case a.time > b.time:
			return -1
		case a.time < b.time:
			return 1
		}
		return 0
	})
	guests = min(guests, len(items)) // no tests: no guests
	shares, sums := make([]share, guests), make([]float64, guests)
	for i := range shares {
		shares[i] = make(share)
	}
	for _, it := range items {
		least := 0
		for i := range sums {
			if sums[i] < sums[least] {
				least = i
			}
		}
		sums[least] += it.time
		shares[least][it.s] = append(shares[least][it.s], it.test)
	}
	return shares
}

// runs returns the test runs of a share, without the tests that are done.
func (sh share) runs(o testOptions, done map[string]bool) []testRun {
	var all []testRun
	for s, tests := range sh {
		var left []string
		for _, t := range tests {
			if !done[s.pkg+" "+t] {
				left = append(left, t)
			}
		}
		if len(left) == 0 {
			continue
		}
		slices.Sort(left)
		args := []string{s.binary, "-test.v=test2json", "-test.timeout=" + (o.timeout - o.timeout/20).String(),
			"-test.run=^(" + strings.Join(left, "|") + ")$", "-test.count=" + strconv.Itoa(o.count), "-test.shuffle=" + o.shuffle}
		if o.short {
			args = append(args, "-test.short")
		}
		all = append(all, testRun{Package: s.pkg, Dir: s.dir, Args: args})
	}
	slices.SortFunc(all, func(a, b testRun) int { return strings.Compare(a.Package, b.Package) })
	return all
}

// boots is the most boots for a share if the virtual machine fails.
const boots = 2

// play runs the shares concurrently, each in its own guest.
func (p *printer) play(ctx context.Context, k rig.Kernel, o testOptions, tmp string, shares []share, stderr io.Writer) (int, error) {
	var wg sync.WaitGroup
	codes, errs := make([]int, len(shares)), make([]error, len(shares))
	for i, sh := range shares {
		wg.Go(func() {
			// The emulator is killed when the thread that started it exits.
			runtime.LockOSThread()
			codes[i], errs[i] = p.playShare(ctx, k, o, filepath.Join(tmp, fmt.Sprintf("batch%d.json", i)), sh, stderr)
		})
	}
	wg.Wait()
	return slices.Max(append(codes, 0)), errors.Join(errs...)
}

func (p *printer) playShare(ctx context.Context, k rig.Kernel, o testOptions, file string, sh share, stderr io.Writer) (int, error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	for boot := 1; ; boot++ {
		runs := sh.runs(o, p.ended())
		text, err := json.Marshal(runs)
		if err != nil {
			return 0, err
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return 0, err
		}
		out := &demux{ctx: ctx, p: p}
		code, err := rig.Run(ctx, k, rig.Config{Args: []string{exe, "batch", file}, Dir: cwd, Env: environ(),
			Timeout: o.timeout, Stdout: out, Stderr: stderr})
		if e := out.close(err == nil && code == 0); err == nil {
			err = e
		}
		var fault *rig.MachineFault
		if !errors.As(err, &fault) || boot == boots || ctx.Err() != nil {
			return code, err
		}
		fmt.Fprintf(stderr, "vm: %v; booting again for the tests that had not finished\n", fault)
	}
}
