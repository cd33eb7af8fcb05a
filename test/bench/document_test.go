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
	return part{Suite: suite, Vehicle: qemu.name, Date: "2026-01-02", Runs: 2}, rowsOf([]result.Sample{
		{Suite: suite, Measure: "latency_p50", Driver: "siw", Params: "send 2 B", Impl: ours, Unit: "µs", Value: value, Vehicle: qemu.name, Run: 1},
		{Suite: suite, Measure: "latency_p50", Driver: "siw", Params: "send 2 B", Impl: "perftest", Unit: "µs", Value: 20, Vehicle: qemu.name, Run: 1},
	})
}

// TestPublish: a document that was written reads as it was; a part that is
// measured again takes the place of the old one; the page shows what there is.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	var d document
	for _, suite := range []string{"cli", "perf", "cli"} {
		d.replace(somePart(suite, 30))
	}
	if len(d.Parts) != 2 || len(d.Rows) != 2 || d.Rows[0].Suite != "perf" {
		t.Fatalf("%+v", d)
	}
	if err := publish(d, dir); err != nil {
		t.Fatal(err)
	}
	again, err := readDocument(filepath.Join(dir, "performance.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, again, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
	page, err := os.ReadFile(filepath.Join(dir, "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| latency p50: send 2 B | siw | µs | 30 | 20 | perftest | 1.50 | ≤ 1: **no** |",
		"| latency p50: send 2 B | siw | qemu 6.12 | perftest | 1.50 | ≤ 1 |",
		"| latency p50 | perftest | ≤ 1 | 2 | 0 | 0 | 2 |",
		"Not measured.",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for name := range d.plots() {
		if !strings.Contains(string(page), "("+name+")") {
			t.Errorf("%s is not on the page", name)
		}
	}
}
