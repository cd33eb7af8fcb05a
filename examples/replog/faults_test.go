package main

import (
	"testing"
	"time"
)

// TestReplicasDie: one may, two may not.
func TestReplicasDie(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		l := c.lead(t)
		appends(t, l, "one", nil)
		c.fabric.Host(1).Device(0).Remove()
		appends(t, l, "two", nil)
		c.fabric.Host(2).Device(0).Remove()
		appends(t, l, "three", errNoMajority)
	})
}

// TestTorn: a leader dies in the middle of a record. The replica that has half of it does not
// count it, and the next leader gives it what the others have.
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

// TestOldLeader: when a new leader has come, the old one writes nowhere.
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

// TestLate: what a leader wrote to less than half is not lost if the next one sees it, and is
// overwritten if it does not.
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

// TestBadNetwork: loss and delay make it slow, and nothing worse.
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
