package gotest

import (
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
{"Action":"fail","Package":"p","Test":"TestA/x","Elapsed":9}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":2}
{"Action":"output","Package":"p","Test":"TestB","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestB/x"}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":3.5}
{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: this kernel has no siw\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"--- SKIP: TestC (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"build-output","ImportPath":"q","Output":"q.go:1: syntax error\n"}
{"Action":"output","Package":"r","Output":"ok  \texample.org/r\t(cached)\n"}
{"Action":"run","Package":"q","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestD"}
{"Action":"output","Package":"p","Test":"TestD","Output":"panic: test timed out after 2s\n"}
{"Action":"fail","Package":"p"}
`

func TestResults(t *testing.T) {
	var r Results
	for line := range strings.Lines(recorded) {
		r.Add(Parse(strings.TrimRight(line, "\n")))
	}
	if diff := cmp.Diff([]string{"p TestA/x", "p TestA", "p TestD"}, r.Failed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"this kernel has no siw": 1}, r.Skipped); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"go build -o bin/vm", "q.go:1: syntax error", "ok  \texample.org/r\t(cached)"}, r.Other); diff != "" {
		t.Error(diff)
	}
	if r.Passed != 1 || r.Skips() != 1 || r.Cached != 1 {
		t.Errorf("%d passed, %d skipped, %d cached; want 1, 1, 1", r.Passed, r.Skips(), r.Cached)
	}
	if diff := cmp.Diff([]Took{{"p TestB", 3500 * time.Millisecond}, {"p TestA", 2 * time.Second}}, r.Slowest(2)); diff != "" {
		t.Error(diff)
	}
	if r.Output("p TestA") != "    a_test.go:7: want 1\n" || r.Output("p TestB") != "" {
		t.Errorf("output of TestA %q, of TestB %q", r.Output("p TestA"), r.Output("p TestB"))
	}
}
