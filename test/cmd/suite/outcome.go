//go:build linux

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/goverbs/goverbs/test/rig"
)

// An outcome is what came of one run of a row.
type outcome struct {
	row     row
	took    time.Duration
	err     error // of the command
	log     string
	passed  int
	failed  []string       // tests, by package
	skipped map[string]int // tests by reason
	faults  []string       // of the machine
	output  map[string]*strings.Builder
	other   []string // lines that no test printed
}

// event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// add takes one line of a row's output.
func (o *outcome) add(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
		e = event{Action: "output", Output: line + "\n"}
	}
	if strings.Contains(e.Output, rig.FaultMark) {
		o.faults = append(o.faults, strings.TrimSpace(e.Output))
	}
	switch e.Action {
	case "output", "build-output":
		o.keep(e)
	case "pass", "fail", "skip":
		if e.Test != "" {
			o.end(e)
		}
	}
}

func (o *outcome) keep(e event) {
	if e.Test == "" {
		if text := strings.TrimRight(e.Output, "\n"); text != "" {
			o.other = append(o.other, text)
		}
		return
	}
	key := e.Package + " " + e.Test
	if o.output[key] == nil {
		o.output[key] = new(strings.Builder)
	}
	o.output[key].WriteString(e.Output)
}

// end counts top-level tests, and keeps what the failed ones said, their subtests
// included.
func (o *outcome) end(e event) {
	key := e.Package + " " + e.Test
	top := !strings.Contains(e.Test, "/")
	switch {
	case e.Action == "fail":
		o.failed = append(o.failed, key)
		return
	case e.Action == "skip":
		o.skipped[reason(o.output[key])]++
	case top:
		o.passed++
	}
	delete(o.output, key)
}

var place = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason is what a skipped test said last.
func reason(said *strings.Builder) string {
	if said != nil {
		if all := place.FindAllStringSubmatch(said.String(), -1); len(all) > 0 {
			return all[len(all)-1][1]
		}
	}
	return "no reason given"
}

// ok is also false for a command that failed without a failed test.
func (o *outcome) ok() bool { return o.err == nil && len(o.failed) == 0 }
