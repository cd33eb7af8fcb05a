//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/gotest"
)

func newPrinter(out *bytes.Buffer) *printer {
	return &printer{to: out, json: true, kept: make(map[string][]gotest.Event), failed: make(map[string]bool)}
}

// TestDeal checks that the longest tests go first, each to the guest with the least to do, and every test to one guest.
func TestDeal(t *testing.T) {
	a, b := &suite{pkg: "a", tests: []string{"TestA", "TestB", "TestC"}}, &suite{pkg: "b", tests: []string{"TestD", "TestE"}}
	times := map[string]float64{"a TestA": 10, "a TestB": 4, "a TestC": 3, "b TestD": 2}
	shares := deal([]*suite{a, b}, times, 2)
	want := []share{{a: {"TestA"}}, {a: {"TestB", "TestC"}, b: {"TestD", "TestE"}}}
	if diff := cmp.Diff(want, shares, cmp.Comparer(func(x, y *suite) bool { return x == y })); diff != "" {
		t.Error(diff)
	}
	if n := len(deal([]*suite{{pkg: "a", tests: []string{"TestA"}}}, nil, 4)); n != 1 {
		t.Errorf("%d guests for one test", n)
	}
	if n := len(deal(nil, nil, 4)); n != 0 {
		t.Errorf("%d guests for nothing", n)
	}
}

func TestRuns(t *testing.T) {
	s, other := &suite{pkg: "b", dir: "/src/b", binary: "/tmp/b.test"}, &suite{pkg: "a", binary: "/tmp/a.test"}
	sh := share{s: {"TestB", "TestA", "TestDone"}, other: {"TestDone"}}
	o, err := parseTest([]string{"-count", "3", "-short", "-shuffle", "on", "-timeout", "100s"}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	want := []testRun{{Package: "b", Dir: "/src/b", Args: []string{"/tmp/b.test", "-test.v=test2json", "-test.timeout=1m35s",
		"-test.run=^(TestA|TestB)$", "-test.count=3", "-test.shuffle=on", "-test.short"}}}
	if diff := cmp.Diff(want, sh.runs(o, map[string]bool{"b TestDone": true, "a TestDone": true})); diff != "" {
		t.Error(diff)
	}
	if !o.fresh {
		t.Error("-count takes cached results")
	}
}

const twoRuns = "boot noise\n" + beginMark + "p\n\x16=== RUN   TestA\n\x16--- PASS: TestA (1.50s)\n\x16=== RUN   TestB\n    b_test.go:1: no siw\n" +
	"\x16--- SKIP: TestB (0.00s)\n\x16PASS\n\n" + endMark + "0\n" + beginMark + "q\n\x16=== RUN   TestC\n    c_test.go:1: bad\n\x16--- FAIL: TestC (0.20s)\n\x16FAIL\n\n" + endMark + "1\n"

// TestDemux checks that the output of a batch, in pieces of any size, becomes the events of its runs.
func TestDemux(t *testing.T) {
	for _, size := range []int{1, 7, len(twoRuns)} {
		var out bytes.Buffer
		p := newPrinter(&out)
		d := &demux{ctx: t.Context(), p: p}
		for text := []byte(twoRuns); len(text) > 0; {
			n := min(size, len(text))
			if _, err := d.Write(text[:n]); err != nil {
				t.Fatal(err)
			}
			text = text[n:]
		}
		if err := d.close(true); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"q TestC"}, p.results.Failed); diff != "" || p.results.Passed != 1 || p.results.Skipped["no siw"] != 1 {
			t.Errorf("failed %q, %d passed, skipped %v", p.results.Failed, p.results.Passed, p.results.Skipped)
		}
		if !p.finish(&suite{pkg: "p", tests: []string{"TestA", "TestB"}}) {
			t.Error("p failed")
		}
		if p.finish(&suite{pkg: "q", tests: []string{"TestC"}}) {
			t.Error("q passed")
		}
		if p.finish(&suite{pkg: "p", tests: []string{"TestA", "TestB", "TestNever"}}) || !strings.Contains(out.String(), "TestNever did not end") {
			t.Error("p passed without one of its tests")
		}
	}
}

// TestDemuxFails checks that a run that exits with another code than 0 fails although no test did, and so does one that
// is cut off.
func TestDemuxFails(t *testing.T) {
	for _, text := range []string{
		beginMark + "p\n\x16--- PASS: TestA (0.00s)\n\x16PASS\n3 mappings left\n\n" + endMark + "1\n",
		beginMark + "p\n\x16--- PASS: TestA (0.00s)\n",
	} {
		p := newPrinter(new(bytes.Buffer))
		d := &demux{ctx: t.Context(), p: p}
		if _, err := d.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := d.close(true); err == nil && p.finish(&suite{pkg: "p", tests: []string{"TestA"}}) {
			t.Errorf("%q passed", text)
		}
	}
}

// TestResults checks that a suite that passed is found again by its binary, and by nothing else.
func TestResults(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "x.test")
	if err := os.WriteFile(bin, []byte("one"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := &results{dir: dir, common: "c", flags: "f", times: make(map[string]float64)}
	s := &suite{pkg: "p", binary: bin}
	key, err := r.key(s)
	if err != nil {
		t.Fatal(err)
	}
	if r.load(key) != nil {
		t.Error("results before the first run")
	}
	var out bytes.Buffer
	p := newPrinter(&out)
	for _, e := range []gotest.Event{
		{Action: "output", Package: "p", Test: "TestB", Output: "    b_test.go:1: no siw\n"}, {Action: "skip", Package: "p", Test: "TestB"},
		{Action: "pass", Package: "p", Test: "TestA/sub"}, {Action: "pass", Package: "p", Test: "TestA", Elapsed: 2},
	} {
		p.event(e)
	}
	if err := r.store(key, p.kept["p"]); err != nil {
		t.Fatal(err)
	}
	if err := r.remember(p.results.Times); err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	newPrinter(&again).replay(s, r.load(key))
	var sum gotest.Results
	for line := range strings.Lines(again.String()) {
		sum.Add(gotest.Parse(strings.TrimSpace(line)))
	}
	if sum.Passed != 1 || sum.Skipped["no siw"] != 1 || sum.Cached != 1 {
		t.Errorf("%d passed, skipped %v, %d cached:\n%s", sum.Passed, sum.Skipped, sum.Cached, &again)
	}
	if err := os.WriteFile(bin, []byte("two"), 0o666); err != nil {
		t.Fatal(err)
	}
	if other, err := r.key(s); err != nil || r.load(other) != nil {
		t.Error("a changed binary finds the old results", err)
	}
	for _, c := range []results{{common: "other", flags: "f"}, {common: "c", flags: "other"}} {
		if other, err := c.key(s); err != nil || other == key {
			t.Error("the same key for other inputs", err)
		}
	}
}

func TestTestErrors(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for args, want := range map[string]string{
		"test -guests 0": "expected at least 1", "test -kernel 5.10": "fetch -kernel 5.10", "test -h": "-fresh", "batch": "expected the file",
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: code %d, stderr %q, want %q in it", args, code, &errs, want)
		}
	}
}
