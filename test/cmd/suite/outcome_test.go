//go:build linux

package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/test/rig"
)

// recorded is what go test -json prints, cut short, behind a line of make's.
const recorded = `go build -o bin/vm
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: want 1\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"ok  \tother\t1.019s\n"}
{"Action":"output","Package":"p","Output":"vm: machine fault: linux 7.2: ` + rig.KnownFault + `: RIP\n"}
`

func playBack(text string, err error) outcome {
	o := outcome{row: row{name: "vm-6.12"}, took: time.Minute, log: "LOG", err: err}
	for line := range strings.Lines(text) {
		o.add(strings.TrimRight(line, "\n"))
	}
	return o
}

func TestEnded(t *testing.T) {
	o := playBack(recorded, errors.New("exit status 2"))
	said := ended(&o)
	for _, want := range []string{"FAIL vm-6.12 after 1m0s: exit status 2", "LOG", "want 1", "go build -o bin/vm", "!! vm-6.12: vm: machine fault"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in:\n%s", want, said)
		}
	}
	if strings.Contains(said, "quiet") {
		t.Errorf("a test that passed is shown:\n%s", said)
	}
	if strings.Contains(said, "other") {
		t.Errorf("a package that passed is shown:\n%s", said)
	}
}

// TestLongOutput checks that the stacks of a test that met the time limit are cut.
func TestLongOutput(t *testing.T) {
	text := strings.Repeat("goroutine 1 [running]:\n", 10)
	if s := first(text, len(text)); s != text {
		t.Errorf("%q", s)
	}
	if s, want := first(text, 50), text[:46]+"[184 bytes more]\n"; s != want {
		t.Errorf("%q, want %q", s, want)
	}
}

// TestSilentFailure checks that a command may fail without a failed test, and a failed test without the command;
// neither passes.
func TestSilentFailure(t *testing.T) {
	dead := playBack("make: *** [vm] Error 1\n", errors.New("exit status 2"))
	lying := playBack(`{"Action":"fail","Package":"p","Test":"TestA"}`, nil)
	fine := playBack(`{"Action":"pass","Package":"p","Test":"TestA"}`, nil)
	for want, all := range map[int][]outcome{0: {fine}, 1: {fine, dead}, 2: {lying, fine}} {
		var out bytes.Buffer
		table(&out, all)
		if code := total(&out, all, time.Minute); code != min(want, 1) {
			t.Errorf("code %d of\n%s", code, &out)
		}
	}
}

// TestLastLine checks that the line has the time, and names faults that a module under test may have caused.
func TestLastLine(t *testing.T) {
	var out bytes.Buffer
	total(&out, []outcome{playBack(recorded, nil)}, 90*time.Second)
	const want = "\n1 passed, 1 failed, 0 skipped\nFAIL in 1m30s; 1 machine faults, 1 of them a known fault of a module under test: tests ran again after it\n"
	if out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		names string
		want  int
	}{{"unit", 1}, {"vm", 3}, {"vm-6.1 lint", 2}, {"vmrace", 1}, {"race", 2}} {
		if some, err := choose(strings.Fields(c.names)); err != nil || len(some) != c.want {
			t.Errorf("%q: %d rows, %v", c.names, len(some), err)
		}
	}
	if _, err := choose([]string{"vm-5.10"}); err == nil || !strings.Contains(err.Error(), "bench-check") {
		t.Errorf("%v", err)
	}
}

// TestRelease checks that each row belongs to make test or to what make test-all adds, and a named row can be of
// either.
func TestRelease(t *testing.T) {
	seen := make(map[string]int)
	for _, args := range [][]string{nil, {"-release"}} {
		o, err := parse(args, io.Discard)
		if err != nil || len(o.rows) == 0 {
			t.Fatal(o.rows, err)
		}
		for _, r := range o.rows {
			seen[r.name]++
		}
	}
	for _, r := range rows {
		if seen[r.name] != 1 {
			t.Errorf("%s is in %d of the two", r.name, seen[r.name])
		}
	}
	if o, err := parse([]string{"abi", "unit"}, io.Discard); err != nil || len(o.rows) != 2 {
		t.Error(o.rows, err)
	}
}
