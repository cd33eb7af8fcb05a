package netconn

import (
	"testing"
	"time"
)

// TestDeadlineWallClock checks that once it is set, a deadline without a monotonic reading does not
// depend on the wall clock. If it did, the timer of the deadline would find that it has not been
// reached after the clock was set back.
func TestDeadlineWallClock(t *testing.T) {
	var d Deadline
	d.Init()
	defer d.Close()
	d.Set(time.Now().Add(time.Hour).Round(0))
	if d.at == d.at.Round(0) {
		t.Error("the deadline has no monotonic reading")
	}
	waits := d.Expiry()
	d.Interrupt()
	if waits.Err() == nil || d.IsOver() {
		t.Error("interrupt changes the deadline, or ends no wait")
	}
	d.Set(time.Now())
	d.Interrupt()
	if !d.IsOver() {
		t.Error("interrupt undoes a deadline that is over")
	}
	d.Set(time.Time{})
	if !d.at.IsZero() || d.IsOver() {
		t.Error(d.at)
	}
}
