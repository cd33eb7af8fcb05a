//go:build linux

package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded is what go test -json prints, cut short, behind a line of make's.
const recorded = `go build -o bin/vm
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: want 1\n"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    a_test.go:9: want 2\n"}
{"Action":"fail","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestB/x"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: this kernel has no siw\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"vm: machine fault: linux 6.12: died; 3 tests had finished\n"}
{"Action":"build-output","ImportPath":"q","Output":"q.go:1: syntax error\n"}
{"Action":"fail","Package":"p"}
`

func playBack(text string, err error) outcome {
	o := outcome{row: row{name: "vm-6.12"}, took: time.Minute, log: "LOG", err: err,
		skipped: make(map[string]int), output: make(map[string]*strings.Builder)}
	for line := range strings.Lines(text) {
		o.add(strings.TrimRight(line, "\n"))
	}
	return o
}

func TestOutcome(t *testing.T) {
	o := playBack(recorded, errors.New("exit status 2"))
	if diff := cmp.Diff([]string{"p TestA/x", "p TestA"}, o.failed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"this kernel has no siw": 1}, o.skipped); diff != "" {
		t.Error(diff)
	}
	if o.passed != 1 || len(o.faults) != 1 || o.ok() {
		t.Errorf("%d passed, faults %q, ok %v", o.passed, o.faults, o.ok())
	}
	said := ended(&o)
	for _, want := range []string{"FAIL vm-6.12 after 1m0s: exit status 2", "LOG", "want 1", "want 2", "q.go:1: syntax error", "machine fault"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "quiet") {
		t.Errorf("a test that passed is shown:\n%s", said)
	}
}

// TestSilentFailure: a command may fail without a failed test, and a failed test
// without the command; neither passes.
func TestSilentFailure(t *testing.T) {
	dead := playBack("make: *** [vm] Error 1\n", errors.New("exit status 2"))
	lying := playBack(`{"Action":"fail","Package":"p","Test":"TestA"}`, nil)
	fine := playBack(`{"Action":"pass","Package":"p","Test":"TestA"}`, nil)
	for want, all := range map[int][]outcome{0: {fine}, 1: {fine, dead}, 2: {lying, fine}} {
		var out bytes.Buffer
		table(&out, all)
		frequencies(&out, all)
		if code := total(&out, all); code != min(want, 1) {
			t.Errorf("code %d of\n%s", code, &out)
		}
	}
}

func TestFrequencies(t *testing.T) {
	fine, bad := playBack("", nil), playBack(recorded, errors.New("exit status 2"))
	var out bytes.Buffer
	frequencies(&out, []outcome{fine, bad, bad})
	const want = "\n2 kinds of failure, 2 machine faults\n2 of 3  vm-6.12  p TestA\n2 of 3  vm-6.12  p TestA/x\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		names string
		want  int
	}{{"", len(rows)}, {"unit", 1}, {"vm", 4}, {"vm-6.1 lint", 2}, {"vmrace", 1}} {
		if some, err := choose(strings.Fields(c.names)); err != nil || len(some) != c.want {
			t.Errorf("%q: %d rows, %v", c.names, len(some), err)
		}
	}
	if _, err := choose([]string{"vm-5.10"}); err == nil || !strings.Contains(err.Error(), "bench-check") {
		t.Errorf("%v", err)
	}
}
