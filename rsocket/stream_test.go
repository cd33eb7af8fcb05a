package rsocket

import "testing"

// TestEndHasRoom: words that never complete leave room for those about the end.
func TestEndHasRoom(t *testing.T) {
	for _, iwarp := range []bool{false, true} {
		s, l := testStream(iwarp)
		for range 15 {
			s.arrived(newWord(opData, 1))
			_, _ = s.read(make([]byte, 1))
			s.keepAlive()
		}
		if s.end(false); s.spare != 1 {
			t.Error(s.spare, "slots left after SHUTDOWN")
		}
		if s.end(true); s.spare != 0 || l.words[len(l.words)-1] != newWord(opControl, ctrlDisconnect) {
			t.Error(s.spare, "slots left after DISCONNECT")
		}
	}
}

// TestNoCrumbs: what is too long for the room in the send buffer waits until there is
// room for a message worth its while.
func TestNoCrumbs(t *testing.T) {
	s, _ := testStream(false)
	s.to.length = 1 << 20
	b := make([]byte, 1<<20)
	if n, err := s.write(b); n != 4096 || err != nil {
		t.Fatal(n, err)
	}
	s.ring.give(leastData - 1)
	if n, err := s.write(b); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := s.write(b[:100]); n != 100 || err != nil {
		t.Error(n, err)
	}
	s.ring.give(101)
	if n, err := s.write(b); n != leastData || err != nil {
		t.Error(n, err)
	}
}

// TestQuiet: a completion stands for a quarter of the slots at most, or of the send buffer,
// and gives all of it back.
func TestQuiet(t *testing.T) {
	for _, test := range []struct{ size, quiet int }{{10, 4}, {300, 3}, {1500, 0}} {
		s, l := testStream(false)
		s.to.length = 1 << 20
		for n := range 2 * (test.quiet + 1) {
			if _, err := s.write(make([]byte, test.size)); err != nil {
				t.Fatal(err)
			}
			if quiet := n%(test.quiet+1) < test.quiet; l.last.quiet != quiet {
				t.Errorf("%d bytes: message %d is quiet: %v", test.size, n, !quiet)
			} else if !quiet {
				s.completed(l.last.id)
			}
			if test.size > 1000 && s.ring.used != 0 {
				t.Error(s.ring.used, "bytes are not given back")
			}
		}
		if s.sent != 0 || s.slots != 16 || s.ring.used != 0 {
			t.Errorf("%d bytes: %d slots in use, %d free, %d bytes in use", test.size, s.sent, s.slots, s.ring.used)
		}
	}
}
