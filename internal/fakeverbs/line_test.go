package fakeverbs

import "testing"

// TestLine checks the order of requests, and that little memory is kept for many that pass.
func TestLine(t *testing.T) {
	var l Line[int]
	next, want := 0, 0
	for round := range 1000 {
		for range round%7 + 1 {
			l.Push(next)
			next++
		}
		for range round % 8 {
			if len(l.Waiting()) == 0 {
				break
			}
			if oldest := l.Waiting()[0]; oldest != want || l.Pop() != want {
				t.Fatalf("%d came, and the turn was %d's", oldest, want)
			}
			want++
		}
		if len(l.Waiting()) != next-want {
			t.Fatalf("%d wait, not %d", len(l.Waiting()), next-want)
		}
	}
	if cap(l.all) > 4*len(l.Waiting())+64 {
		t.Errorf("room for %d, and %d wait", cap(l.all), len(l.Waiting()))
	}
}
