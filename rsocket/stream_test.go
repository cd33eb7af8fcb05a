package rsocket

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
)

// TestEndHasRoom checks that words that never complete leave room for those about the end.
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

// TestNoCrumbs checks that data that is too long for the free send buffer waits until there is room
// for a message worth its while.
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

// TestQuiet checks that a completion stands for a quarter of the slots at most, or of the send
// buffer, and gives all of it back.
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

// sink takes all messages.
type sink struct {
	words []word
	last  message
}

func (s *sink) post(m *message) error {
	s.words, s.last = append(s.words, m.word), *m
	return nil
}

func testStream(iwarp bool) (*stream, *sink) {
	l := new(sink)
	own := memory{table: make(table, tableEntries*offerSize), mappings: make([]byte, 2*mappingSize), recv: make([]byte, 4096), send: make([]byte, 4096), inline: inlineData}
	peer := hello{bigEndian: bigEndian, credits: 16, table: offer{0, 7, 2}, buffer: offer{4096, 7, 2048}}
	return newStream(l, own, peer, 16, 16, iwarp), l
}

// TestHostile checks that each rule that a peer breaks ends the connection with an error that says
// so, after the data that came before.
func TestHostile(t *testing.T) {
	data := func(n uint32) word { return newWord(opData, n) }
	limit := func(n uint32) word { return newWord(opSGL, n) }
	for name, words := range map[string][]word{
		"nothing":             {data(0)},
		"more than offered":   {data(2049)},
		"across offers":       {data(2000), data(49)},
		"beyond all offers":   {data(2048), data(2048), data(1)},
		"beyond the credits":  slices.Repeat([]word{data(1)}, 17),
		"data after shutdown": {newWord(opControl, ctrlShutdown), data(1)},
		"credits backwards":   {limit(20), limit(19)}, // none is sent, and 20 would be too many
		"less credits":        {limit(15)},
		"a mapping nowhere":   {newWord(opIOMap, 2)},
		"a late mapping":      {newWord(opControl, ctrlShutdown), newWord(opIOMap, 0)},
		"reserved 1":          {newWord(1, 5)},
		"reserved 2":          {newWord(2, 5)},
		"reserved 3":          {newWord(3, 5)},
		"reserved 5":          {newWord(5, 5)},
	} {
		s, _ := testStream(false)
		s.settle()
		for _, w := range words {
			s.arrived(w)
		}
		if !errors.Is(s.failed, ErrProtocol) {
			t.Errorf("%s: %v", name, s.failed)
		}
		for i := 0; s.in.buffered() > 0; i++ {
			if n, err := s.read(make([]byte, 4096)); n == 0 || err != nil {
				t.Fatalf("%s: what came before: %d, %v", name, n, err)
			}
		}
		want := ErrProtocol
		if s.ends.finished() { // in order, as far as reading goes
			want = io.EOF
		}
		if n, err := s.read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
			t.Errorf("%s: read %d, %v", name, n, err)
		}
		if n, err := s.write([]byte{1}); n != 0 || !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: wrote %d, %v", name, n, err)
		}
	}
}

// TestWindow checks that limits wrap, and go up only.
func TestWindow(t *testing.T) {
	w := window{most: 16, seq: 65530, limit: 65535}
	for _, limit := range []uint16{65535, 2, 10} {
		if err := w.raise(limit); err != nil || w.limit != limit {
			t.Errorf("%d: %v", limit, err)
		}
	}
	for _, limit := range []uint16{9, 11, 65529, 65535} {
		if err := w.raise(limit); !errors.Is(err, ErrProtocol) || w.limit != 10 {
			t.Errorf("%d: %v", limit, err)
		}
	}
	w.seq = 10
	if w.open() {
		t.Error("open at the limit")
	}
	// Over iWARP a part stays unused, but not all of a small window.
	for credits, want := range map[uint16]uint16{384: 376, 16: 8, 2: 1, 1: 1} {
		w := newWindow(credits, true)
		n := uint16(0)
		for ; w.open(); n++ {
			w.seq++
		}
		if n != want {
			t.Errorf("%d of %d credits used, want %d", n, credits, want)
		}
	}
}

// TestUnknownControl checks that words about the end that are new are dropped, and so is keep-alive.
func TestUnknownControl(t *testing.T) {
	s, _ := testStream(false)
	s.arrived(newWord(opControl, ctrlKeepAlive))
	s.arrived(newWord(opControl, 77))
	if s.failed != nil || s.ends != (ends{}) {
		t.Error(s.failed, s.ends)
	}
}

// TestEnds goes through the ways to end.
func TestEnds(t *testing.T) {
	const shut, leave = ctrlShutdown, ctrlDisconnect
	for _, test := range []struct {
		name string
		do   func(s *stream)
		want []uint32 // words about the end that are sent
		eof  bool
	}{
		{"shut", func(s *stream) { s.end(false); s.end(false) }, []uint32{shut}, false},
		{"shut, leave", func(s *stream) { s.end(false); s.end(true); s.end(true) }, []uint32{shut, leave}, false},
		{"shut behind the peer", func(s *stream) { s.arrived(newWord(opControl, shut)); s.end(false) }, []uint32{leave}, true},
		{"leave behind the peer", func(s *stream) { s.arrived(newWord(opControl, shut)); s.end(true) }, []uint32{leave}, true},
		{"shuts that cross", func(s *stream) { s.end(false); s.arrived(newWord(opControl, shut)); s.end(true) }, []uint32{shut}, true},
		{"the peer left", func(s *stream) { s.arrived(newWord(opControl, leave)); s.end(true) }, nil, true},
	} {
		s, l := testStream(false)
		test.do(s)
		var got []uint32
		for _, w := range l.words {
			if w.op() == opControl {
				got = append(got, w.value())
			}
		}
		if _, err := s.read(make([]byte, 1)); !slices.Equal(got, test.want) || (err == io.EOF) != test.eof {
			t.Errorf("%s: sent %v, read %v", test.name, got, err)
		}
	}
}

// FuzzStream lets a peer send any words and write anything to the table. All sends stay within the
// last offer, and nothing panics.
func FuzzStream(f *testing.F) {
	f.Add(binary.BigEndian.AppendUint32(nil, uint32(newWord(opData, 100))), []byte{0, 16, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 8}, false)
	f.Add(binary.BigEndian.AppendUint32(nil, uint32(newWord(opSGL, 17))), []byte{}, true)
	f.Add(binary.BigEndian.AppendUint32(nil, uint32(newWord(opControl, 2))), slices.Repeat([]byte{255}, 32), true)
	f.Add(binary.BigEndian.AppendUint32(nil, uint32(newWord(opIOMap, 1))), slices.Repeat([]byte{0, 3}, 40), false)
	f.Fuzz(func(t *testing.T, words, entries []byte, iwarp bool) {
		s, _ := testStream(iwarp)
		copy(s.own.mappings, entries[copy(s.own.table, entries):])
		b := make([]byte, 3000)
		for ; len(words) >= 4; words = words[4:] {
			s.arrived(word(binary.BigEndian.Uint32(words)))
			s.settle()
			_, _ = s.write(b)
			_, _ = s.writeAt(b[:words[2]], uint64(words[1]))
			_, _ = s.read(b[:words[3]])
			if s.slots < 0 || s.spare < 0 || s.ring.free() < 0 || s.in.buffered() > 4096 {
				t.Fatalf("%+v", s)
			}
		}
		s.end(true)
	})
}
