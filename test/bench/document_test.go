//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/bench/result"
)

func somePart(suite string, value float64) (part, []*row) {
	return part{Suite: suite, Environment: icount.name, Date: "2026-01-02", Runs: 2}, rowsOf([]result.Sample{
		{Suite: suite, Measure: "latency_p50", Driver: "siw", Params: "send 2 B", Impl: ours, Unit: "µs", Value: value, Environment: icount.name, Run: 1},
		{Suite: suite, Measure: "latency_p50", Driver: "siw", Params: "send 2 B", Impl: "perftest", Unit: "µs", Value: 20, Environment: icount.name, Run: 1},
	})
}

// TestPublish checks that results can be written and read; a part that is measured again replaces the old one; the page
// and the table show the figures.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	to := paths{page: filepath.Join(dir, "performance.md"), results: filepath.Join(dir, "results.json")}
	var d document
	var s summary
	for _, suite := range []string{"scale", "perf", "scale"} {
		p, rows := somePart(suite, 30)
		s.replace(p, rows)
		if suite == "perf" {
			d.add(p, rows)
		}
	}
	if len(s.Parts) != 2 || len(s.Results) != 2 || s.Results[0].Suite != "perf" {
		t.Fatalf("%+v", s)
	}
	if err := s.publish(to); err != nil {
		t.Fatal(err)
	}
	results, err := readResults(to.results)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, results); diff != "" {
		t.Error(diff)
	}
	if want := "| latency p50: send 2 B | siw | µs | 30 | 20 | perftest | 1.50 |"; !strings.Contains(d.markdown(), want) {
		t.Errorf("no %q in\n%s", want, d.markdown())
	}
	holds(t, to.page, "| perf, qemu icount 6.12 | latency p50 | perftest | 1 | 1.50 |")
}

func holds(t *testing.T, file, want string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// TestPage checks that docs/performance.md is generated from results.json and the template.
func TestPage(t *testing.T) {
	s, err := readResults("results.json")
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "performance.md")
	if err := s.publish(paths{page: page, results: filepath.Join(t.TempDir(), "results.json")}); err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	holds(t, page, string(recorded))
}
