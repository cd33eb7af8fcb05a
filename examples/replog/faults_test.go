package main

import (
	"testing"
	"time"
)

// TestReplicasDie checks that the log survives the loss of one replica, but not of two.
func TestReplicasDie(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		l := c.lead(t)
		appends(t, l, "one", nil)
		c.fabric.Host(1).Kill()
		appends(t, l, "two", nil)
		c.fabric.Host(2).Kill()
		appends(t, l, "three", errNoMajority)
	})
}

// TestTorn kills a leader in the middle of a record. The replica with half a record does not
// count it, and gets the others' records from the next leader.
func TestTorn(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		l := c.lead(t)
		appends(t, l, "one", nil)
		c.fabric.Host(0).Device(0).CutSend(0, header+2)
		appends(t, l, "two", nil)
		whole := 0
		for _, log := range c.logs() {
			switch log {
			case "one+two":
				whole++
			case "one":
			default:
				t.Errorf("a log is %q", log)
			}
		}
		if whole != 2 {
			t.Errorf("%d logs are whole", whole)
		}
		l = c.lead(t)
		appends(t, l, "three", nil)
		check(t, c, "one+two+three", "one+two+three", "one+two+three")
	})
}

// TestOldLeader checks that an old leader can write nowhere once there is a new one.
func TestOldLeader(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		old := c.lead(t)
		appends(t, old, "one", nil)
		l := c.lead(t)
		appends(t, old, "two", errNoMajority)
		appends(t, l, "three", nil)
		check(t, c, "one+three", "one+three", "one+three")
	})
}

// TestLate writes a record to less than half of the replicas. The next leader keeps it if it
// sees it, and overwrites it if not.
func TestLate(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		appends(t, c.lead(t), "one", nil)
		few, err := newLeader(t.Context(), c.addresses)
		if err != nil {
			t.Fatal(err)
		}
		few.close()
		few.all, few.replicas = 1, nil
		r, err := reach(t.Context(), c.addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		few.replicas = append(few.replicas, r)
		appends(t, few, "lost", nil) // one of one, as far as it knows
		few.close()
		check(t, c, "one+lost", "one", "one")

		l, err := newLeader(t.Context(), append([]string{"198.51.100.250:7471"}, c.addresses[1:]...))
		if err != nil {
			t.Fatal(err)
		}
		appends(t, l, "two", nil)
		l.close()
		check(t, c, "one+lost", "one+two", "one+two")
		appends(t, c.lead(t), "three", nil)
		check(t, c, "one+two+three", "one+two+three", "one+two+three")
	})
}

// TestBadNetwork checks that loss and delay only make the log slow.
func TestBadNetwork(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		l := c.lead(t)
		c.fabric.SetLoss(0.05)
		c.fabric.SetLatency(time.Millisecond)
		for range 5 {
			appends(t, l, "x", nil)
		}
		c.fabric.SetLoss(0)
		check(t, c, "x+x+x+x+x", "x+x+x+x+x", "x+x+x+x+x")
	})
}
