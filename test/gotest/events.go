// Package gotest reads what go test -json prints.
package gotest

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Event is a line of go test -json.
type Event struct {
	Action     string
	Package    string  `json:",omitempty"`
	ImportPath string  `json:",omitempty"`
	Test       string  `json:",omitempty"`
	Output     string  `json:",omitempty"`
	Elapsed    float64 `json:",omitempty"` // in seconds
}

// Parse reads one line. A line that is not an event becomes the output of no test.
func Parse(line string) Event {
	var e Event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		return Event{Action: "output", Output: line + "\n"}
	}
	return e
}

// Top reports whether the event is about a top-level test, not about a subtest or a package.
func (e Event) Top() bool { return e.Test != "" && !strings.Contains(e.Test, "/") }

// Ended reports whether the event ends a test or a package.
func (e Event) Ended() bool {
	return e.Action == "pass" || e.Action == "fail" || e.Action == "skip"
}

// Took is how long a test or a package ran.
type Took struct {
	Name string
	Time time.Duration
}

// Results sums up a stream of events.
type Results struct {
	Passed  int            // top-level tests
	Failed  []string       // tests and subtests, by package and name; also those that never ended
	Skipped map[string]int // tests by the reason that they printed
	Cached  int            // packages whose earlier results were printed again
	Times   []Took         // of top-level tests
	Other   []string       // lines that no test printed

	output  map[string]*strings.Builder // of tests that have not passed
	running map[string]string           // package of tests that have begun and not ended, by key
}

// Add takes one event.
func (r *Results) Add(e Event) {
	switch {
	case e.Action == "output" || e.Action == "build-output":
		r.keep(e)
	case e.Action == "run":
		if r.running == nil {
			r.running = make(map[string]string)
		}
		r.running[e.Package+" "+e.Test] = e.Package
	case e.Ended() && e.Test != "":
		r.end(e)
	case e.Action == "fail":
		r.endPackage(e.Package)
	}
}

// endPackage counts the tests that never ended as failed. No event says so of a test that meets
// the time limit, or that is running when another one panics.
func (r *Results) endPackage(pkg string) {
	var left []string
	for key, p := range r.running {
		if p == pkg {
			left = append(left, key)
			delete(r.running, key)
		}
	}
	slices.Sort(left)
	r.Failed = append(r.Failed, left...)
}

func (r *Results) keep(e Event) {
	if e.Test == "" {
		if cached.MatchString(e.Output) {
			r.Cached++
		}
		if text := strings.TrimRight(e.Output, "\n"); text != "" {
			r.Other = append(r.Other, text)
		}
		return
	}
	key := e.Package + " " + e.Test
	if r.output == nil {
		r.output = make(map[string]*strings.Builder)
	}
	if r.output[key] == nil {
		r.output[key] = new(strings.Builder)
	}
	r.output[key].WriteString(e.Output)
}

// cached matches how go test ends a package whose tests did not have to run again.
var cached = regexp.MustCompile(`^ok\s.*\t\(cached\)`)

// end counts top-level tests, and keeps the output of those that failed and of their subtests.
func (r *Results) end(e Event) {
	key := e.Package + " " + e.Test
	delete(r.running, key)
	if e.Top() {
		r.Times = append(r.Times, Took{key, time.Duration(e.Elapsed * float64(time.Second))})
	}
	switch {
	case e.Action == "fail":
		r.Failed = append(r.Failed, key)
		return
	case e.Action == "skip":
		if r.Skipped == nil {
			r.Skipped = make(map[string]int)
		}
		r.Skipped[Reason(r.Output(key))]++
	case e.Top():
		r.Passed++
	}
	delete(r.output, key)
}

// Output returns the output of a test that has not passed. The key is its package and name.
func (r *Results) Output(key string) string {
	if b := r.output[key]; b != nil {
		return b.String()
	}
	return ""
}

// Skips returns the number of skipped tests.
func (r *Results) Skips() int {
	sum := 0
	for _, n := range r.Skipped {
		sum += n
	}
	return sum
}

// Slowest returns the n top-level tests that took longest.
func (r *Results) Slowest(n int) []Took {
	slow := slices.Clone(r.Times)
	slices.SortStableFunc(slow, func(a, b Took) int { return int(b.Time - a.Time) })
	return slow[:min(n, len(slow))]
}

var place = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// Reason returns the last message in the output of a skipped test.
func Reason(output string) string {
	if all := place.FindAllStringSubmatch(output, -1); len(all) > 0 {
		return all[len(all)-1][1]
	}
	return "no reason given"
}
