package rsocket

import (
	"testing"
	"time"
)

// TestDeadlineWallClock: a deadline without a monotonic reading does not depend on the wall
// clock once it is set. A clock that is set back would have its timer find it still to come.
func TestDeadlineWallClock(t *testing.T) {
	var d deadline
	d.init()
	defer d.close()
	d.set(time.Now().Add(time.Hour).Round(0))
	if d.at == d.at.Round(0) {
		t.Error("the deadline has no monotonic reading")
	}
	waits := d.expiry()
	d.interrupt()
	if waits.Err() == nil || d.isOver() {
		t.Error("interrupt changes the deadline, or ends no wait")
	}
	d.set(time.Now())
	d.interrupt()
	if !d.isOver() {
		t.Error("interrupt undoes a deadline that is over")
	}
	d.set(time.Time{})
	if !d.at.IsZero() || d.isOver() {
		t.Error(d.at)
	}
}
