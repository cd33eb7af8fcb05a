package msg

import (
	"errors"
	"math/rand/v2"
	"testing"
)

func TestAllowance(t *testing.T) {
	for _, base := range []uint16{0, 65530, 32760} { // the counts wrap around
		a := allowance{window: 8, sent: base, limit: base + 3}
		for _, bad := range []uint16{base + 2, base - 1, base + 9, base + 32768} {
			if err := a.raise(bad); !errors.Is(err, ErrProtocol) {
				t.Errorf("from %d to %d: %v", base+3, bad, err)
			}
		}
		for _, good := range []uint16{base + 3, base + 4, base + 8} {
			if err := a.raise(good); err != nil || a.left() != good-base {
				t.Errorf("from %d to %d: %v, %d left", base+3, good, err, a.left())
			}
		}
	}
}

// The last credit is for a frame that only grants.
func TestLastCredit(t *testing.T) {
	for left, want := range []struct{ data, grant bool }{{false, false}, {false, true}, {true, true}} {
		a := allowance{window: 8, sent: 5, limit: 5 + uint16(left)}
		if a.mayData() != want.data || a.mayGrant() != want.grant {
			t.Errorf("%d left: %v, %v", left, a.mayData(), a.mayGrant())
		}
	}
}

func TestGrants(t *testing.T) {
	g := grants{window: 8, told: 8}
	for range 8 {
		if err := g.take(typeData); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.take(typeCredit); !errors.Is(err, ErrProtocol) {
		t.Error("a ninth frame:", err)
	}
	for i := range 4 {
		if g.due() {
			t.Errorf("due with %d owed", i)
		}
		g.freed++
	}
	if !g.due() || g.tell() != 12 || g.due() {
		t.Errorf("%+v", g)
	}
}

// Two sides that only answer each other's grants come to rest.
func TestGrantsDieOut(t *testing.T) {
	for _, window := range []uint16{minWindow, 5, 7, 32, maxWindow} {
		r := rand.New(rand.NewPCG(uint64(window), 1))
		var side [2]struct {
			allowance
			grants
		}
		for i := range side {
			side[i].allowance = allowance{window: window, limit: window}
			side[i].grants = grants{window: window, told: window, freed: uint16(r.IntN(int(window)))}
		}
		sent := 0
		for again := true; again; {
			again = false
			for i := range side {
				a, b := &side[i], &side[1-i]
				if !a.due() || !a.mayGrant() {
					continue
				}
				again = true
				a.sent++
				b.allowance.limit = a.tell()
				b.grants.freed++
				if sent++; sent > 4 {
					t.Fatalf("window %d: they go on", window)
				}
			}
		}
	}
}
