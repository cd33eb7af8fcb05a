//go:build linux

package main

import (
	"testing"
)

// TestPeakMemory: the peak of a small program is less than that of this one. The peak of a program that
// allocates much memory is about that memory.
func TestPeakMemory(t *testing.T) {
	ours := make([]byte, 64<<20)
	for i := 0; i < len(ours); i += 4096 {
		ours[i] = 1
	}
	small, err := peakMemory("true", nil)
	if err != nil || small < 100 || small > 16<<10 {
		t.Errorf("true had %d KiB, %v", small, err)
	}
	big, err := peakMemory("dd", []string{"if=/dev/zero", "of=/dev/null", "bs=32M", "count=1"})
	if err != nil || big < 32<<10 || big > 48<<10 {
		t.Errorf("dd with 32 MiB had %d KiB, %v", big, err)
	}
	if _, err := peakMemory("false", nil); err == nil {
		t.Error("a command that failed")
	}
	if _, err := peakMemory("nosuchprogram", nil); err == nil {
		t.Error("a command that is none")
	}
	_ = ours[0]
}
