package roce

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"
)

var (
	sealKey   = []byte("a key of 16 bytes and more")
	sealRoute = Route{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), SrcPort: Port}
	sealTime  = time.Unix(1_800_000_000, 0)
)

// refuses reports an opener that takes a packet.
func refuses(t *testing.T, o *Opener, r Route, packet []byte, now time.Time, want error) {
	t.Helper()
	if got, err := o.Open(r, packet, now); !errors.Is(err, want) || got != nil {
		t.Errorf("%q, %v, want %v", got, err, want)
	}
}

// A packet passes unchanged, once. One that was changed, cut, sealed with another key or taken elsewhere does not.
func TestSeal(t *testing.T) {
	o := NewOpener(sealKey)
	want := []byte("packet")
	sealed := NewSealer(sealKey).Seal(sealRoute, slices.Clone(want), sealTime)
	for bit := range 8 * len(sealed) {
		changed := slices.Clone(sealed)
		changed[bit/8] ^= 1 << (bit % 8)
		refuses(t, o, sealRoute, changed, sealTime, ErrSeal)
	}
	for n := range sealed {
		refuses(t, o, sealRoute, sealed[:n], sealTime, ErrSeal)
		refuses(t, o, sealRoute, sealed[n+1:], sealTime, ErrSeal)
	}
	refuses(t, o, sealRoute, append(slices.Clone(sealed), 0), sealTime, ErrSeal)
	refuses(t, NewOpener(sealKey[1:]), sealRoute, sealed, sealTime, ErrSeal)
	for _, change := range []func(*Route){
		func(r *Route) { r.Src = r.Src.Next() }, func(r *Route) { r.Dst = r.Dst.Next() }, func(r *Route) { r.SrcPort++ }, func(r *Route) { r.Src, r.Dst = r.Dst, r.Src },
	} {
		r := sealRoute
		change(&r)
		refuses(t, o, r, sealed, sealTime, ErrSeal)
	}
	if got, err := o.Open(sealRoute, sealed, sealTime); !bytes.Equal(got, want) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	refuses(t, o, sealRoute, sealed, sealTime, ErrRepeated)
}

// A packet passes while the clocks differ by at most ClockSkew. A sender that starts anew is ahead of its predecessor.
func TestSealClock(t *testing.T) {
	o := NewOpener(sealKey)
	sealed := NewSealer(sealKey).Seal(sealRoute, nil, sealTime)
	refuses(t, o, sealRoute, sealed, sealTime.Add(ClockSkew+1), ErrClock)
	refuses(t, o, sealRoute, sealed, sealTime.Add(-ClockSkew-1), ErrClock)
	for i, skew := range []time.Duration{-ClockSkew, ClockSkew} {
		if _, err := o.Open(sealRoute, NewSealer(sealKey).Seal(sealRoute, nil, sealTime.Add(time.Duration(i))), sealTime.Add(time.Duration(i)+skew)); err != nil {
			t.Errorf("%v: %v", skew, err)
		}
	}
}

// Packets may overtake each other, by less than the window. None passes twice, also when its number is no longer remembered.
func TestSealOrder(t *testing.T) {
	const n = 5 * windowSize
	s, o := NewSealer(sealKey), NewOpener(sealKey)
	var all [n][]byte
	for i := range all {
		all[i] = s.Seal(sealRoute, nil, sealTime)
	}
	open := func(i int) error {
		_, err := o.Open(sealRoute, all[i], sealTime)
		return err
	}
	const block = windowSize / 2
	for from := 0; from < n; from += block {
		for i := from + block - 1; i >= from; i-- {
			if err := open(i); err != nil {
				t.Fatal(i, err)
			}
		}
	}
	for i := range all {
		if err := open(i); !errors.Is(err, ErrRepeated) {
			t.Fatal(i, err)
		}
	}
	if seen := len(o.sources[sealRoute.Src].seen); seen >= 2*windowSize {
		t.Errorf("%d numbers are remembered", seen)
	}
}

// A receiver remembers a bounded number of sources, and forgets one only when all that it sent is too old.
func TestSealSources(t *testing.T) {
	s, o := NewSealer(sealKey), NewOpener(sealKey)
	r := sealRoute
	var first []byte
	for i := range mostSources {
		r.Src = r.Src.Next()
		sealed := s.Seal(r, nil, sealTime)
		if first == nil {
			first = sealed
		}
		if _, err := o.Open(r, sealed, sealTime); err != nil {
			t.Fatal(i, err)
		}
	}
	next := r
	next.Src = next.Src.Next()
	refuses(t, o, next, s.Seal(next, nil, sealTime), sealTime, ErrSources)
	later := sealTime.Add(ClockSkew + time.Millisecond)
	if _, err := o.Open(next, s.Seal(next, nil, later), later); err != nil || len(o.sources) != 1 {
		t.Errorf("%v, %d sources", err, len(o.sources))
	}
	r.Src = sealRoute.Src.Next()
	refuses(t, o, r, first, later, ErrClock)
}

// A datagram passes only if it is a sealed one, for the first time.
func FuzzSeal(f *testing.F) {
	sealed := NewSealer(sealKey).Seal(sealRoute, []byte("packet"), sealTime)
	f.Add(0, []byte{})
	f.Add(3, []byte{1})
	f.Add(len(sealed)-1, []byte{0x80, 1})
	f.Fuzz(func(t *testing.T, at int, change []byte) {
		b := slices.Clone(sealed)
		for i, c := range change {
			if i+at < 0 || i+at > len(b) {
				break
			}
			if i+at == len(b) {
				b = append(b, c)
			}
			b[i+at] ^= c
		}
		o := NewOpener(sealKey)
		_, err := o.Open(sealRoute, b, sealTime)
		if (err == nil) != bytes.Equal(b, sealed) {
			t.Errorf("%v for %x", err, b)
		}
		if _, again := o.Open(sealRoute, b, sealTime); again == nil {
			t.Errorf("%x passes twice", b)
		}
	})
}
