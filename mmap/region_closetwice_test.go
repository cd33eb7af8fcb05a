package mmap

import (
	"errors"
	"os"
	"testing"
)

// A region that is closed while another Close unmaps it is unmapped once: the second
// time the address may be another mapping's.
func TestCloseAtTheSameTime(t *testing.T) {
	var r *Region
	unmapped := 0
	r = track(&Region{data: make([]byte, 1), unmap: func([]byte) error {
		unmapped++
		if err := r.Close(); !errors.Is(err, os.ErrClosed) {
			t.Error("a Close during another:", err)
		}
		return nil
	}})
	if err := r.Close(); err != nil || unmapped != 1 {
		t.Errorf("unmapped %d times, %v", unmapped, err)
	}
}
