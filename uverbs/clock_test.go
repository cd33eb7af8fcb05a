package uverbs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestNoClock: a driver without a clock, and a closed device.
func TestNoClock(t *testing.T) {
	w := newWorld(t)
	if _, err := w.dev.QueryClock(); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "query the clock of") {
		t.Error(err)
	}
	_, dev := open(t, mlx50)
	closeAll(t, dev)
	if _, err := dev.QueryClock(); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}
