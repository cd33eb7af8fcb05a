//go:build linux

package rig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckSeries(t *testing.T) {
	for names, want := range map[string][]string{
		"all":       Series,
		"6.1":       {"6.1"},
		"7.3  6.12": {"7.3", "6.12"},
		"uml-6.12":  {UML},
		"uml-6.1":   nil,
		"5.10":      nil,
		"6.1 5.10":  nil,
		"all 6.1":   nil,
		"":          nil,
	} {
		got, err := CheckSeries(names)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%q: %v (-want +got):\n%s", names, err, diff)
		}
	}
}

// TestLacks checks which kernels lack siw: its tests are left out on these.
func TestLacks(t *testing.T) {
	for series, want := range map[string]string{"6.12": "", "6.1": "", UML: "", "7.3": "siw"} {
		if got := (Kernel{Series: series}).Lacks(); got != want {
			t.Errorf("series %s lacks %q, want %q", series, got, want)
		}
	}
}
