package msg

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"
)

// The bytes of docs/messages.md.
func TestFrameBytes(t *testing.T) {
	b := make([]byte, frameSize+rtsSize)
	frame{typeRTS, 0, 0x0102, rtsSize, 0x1112131415161718}.put(b)
	rts{0x2122232425262728, 0x313, 0x41424344}.put(b[frameSize:])
	want := "02000201" + "18000000" + "1817161514131211" + "2827262524232221" + "1303000000000000" + "44434241" + "00000000"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f, payload, err := parseFrame(b)
	if err != nil || f != (frame{typeRTS, 0, 0x0102, rtsSize, 0x1112131415161718}) {
		t.Error(f, err)
	}
	if r, err := parseRTS(payload, 0x313); err != nil || r != (rts{0x2122232425262728, 0x313, 0x41424344}) {
		t.Error(r, err)
	}
	h := hello{0x0102, 0x1234, 0x56789}
	want = "67766d73" + "01" + "00" + "0201" + "34120000" + "8967050000000000"
	if got := hex.EncodeToString(h.bytes()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFrameRefused(t *testing.T) {
	good := func(f frame, n int) []byte {
		b := make([]byte, frameSize+n)
		f.put(b)
		return b
	}
	for name, b := range map[string][]byte{
		"nothing":            {},
		"15 bytes":           make([]byte, 15),
		"type 0":             good(frame{}, 0),
		"type 6":             good(frame{typ: 6}, 0),
		"length too long":    good(frame{typ: typeData, length: 5}, 4),
		"length too short":   good(frame{typ: typeData, length: 3}, 4),
		"length 4 GiB - 1":   good(frame{typ: typeData, length: 1<<32 - 1}, 4),
		"flags":              good(frame{typ: typeData, flags: 1}, 0),
		"flags of CLOSE":     good(frame{typ: typeClose, flags: 2}, 0),
		"RTS of 23 bytes":    good(frame{typ: typeRTS, length: 23}, 23),
		"FIN with a payload": good(frame{typ: typeFIN, length: 1}, 1),
		"CREDIT of 1 byte":   good(frame{typ: typeCredit, length: 1}, 1),
	} {
		if _, _, err := parseFrame(b); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRTSRefused(t *testing.T) {
	for name, r := range map[string]rts{
		"empty":        {addr: 1},
		"too long":     {addr: 1, length: 1001},
		"wraps around": {addr: 1<<64 - 10, length: 11},
	} {
		b := make([]byte, rtsSize)
		r.put(b)
		if _, err := parseRTS(b, 1000); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := make([]byte, rtsSize)
	rts{1, 1, 1}.put(b)
	if b[23] = 1; !errors.Is(second(parseRTS(b, 1000)), ErrProtocol) {
		t.Error("reserved bits were taken")
	}
}

func second[T any](_ T, err error) error { return err }

func TestHelloRefused(t *testing.T) {
	good := hello{32, 4096, 1 << 20}
	if h, err := parseHello(append(good.bytes(), 0, 0, 0)); h != good || err != nil {
		t.Error("filled up with zeros:", h, err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"none":    func([]byte) []byte { return nil },
		"short":   func(b []byte) []byte { return b[:helloSize-1] },
		"magic":   func(b []byte) []byte { b[0]++; return b },
		"version": func(b []byte) []byte { b[4]++; return b },
	} {
		if _, err := parseHello(change(good.bytes())); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, h := range []hello{{3, 4096, 1 << 20}, {maxWindow + 1, 4096, 1 << 20}, {32, 63, 1 << 20}, {32, maxEager + 1, 1 << 30}, {32, 4096, 4095}, {32, 4096, 1<<30 + 1}} {
		if _, err := parseHello(h.bytes()); !errors.Is(err, ErrProtocol) {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// A frame that is taken is one that this side could have sent.
func FuzzFrame(f *testing.F) {
	for _, fr := range []frame{{typeData, 0, 1, 3, 9}, {typeRTS, 0, 1, rtsSize, 9}, {typeFIN, 0, 1, 0, 9}, {typeCredit, 0, 1, 0, 0}, {typeClose, 1, 1, 0, 9}} {
		b := make([]byte, frameSize+fr.length)
		fr.put(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, payload, err := parseFrame(b)
		if err != nil {
			return
		}
		again := append(make([]byte, frameSize), payload...)
		fr.put(again)
		if !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add(hello{32, 4096, 1 << 20}.bytes())
	f.Add([]byte("gvms"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := parseHello(b); err == nil && !bytes.Equal(h.bytes()[6:], b[6:helloSize]) {
			t.Errorf("%x became %+v", b, h)
		}
	})
}

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

// TestLastCredit checks that the last credit is for a frame that only grants credits.
func TestLastCredit(t *testing.T) {
	for left, want := range []struct{ data, grant bool }{{false, false}, {false, true}, {true, true}} {
		a := allowance{window: 8, sent: 5, limit: 5 + uint16(left)}
		if a.mayData() != want.data || a.mayGrant() != want.grant {
			t.Errorf("%d left: %v, %v", left, a.mayData(), a.mayGrant())
		}
	}
}

func TestGrants(t *testing.T) {
	g := grants{window: 8, announced: 8}
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
	if !g.due() || g.announce() != 12 || g.due() {
		t.Errorf("%+v", g)
	}
}

// TestGrantsDieOut checks that two sides that only answer each other's grants come to rest.
func TestGrantsDieOut(t *testing.T) {
	for _, window := range []uint16{minWindow, 5, 7, 32, maxWindow} {
		r := rand.New(rand.NewPCG(uint64(window), 1))
		var side [2]struct {
			allowance
			grants
		}
		for i := range side {
			side[i].allowance = allowance{window: window, limit: window}
			side[i].grants = grants{window: window, announced: window, freed: uint16(r.IntN(int(window)))}
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
				b.allowance.limit = a.announce()
				b.grants.freed++
				if sent++; sent > 4 {
					t.Fatalf("window %d: they go on", window)
				}
			}
		}
	}
}
