package msg

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

func testShape(t testing.TB) shape {
	s, err := (&Config{EagerSize: 64, Window: 8, MaxMessage: 1000}).shape()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hostile is a world whose second end is the test itself.
func hostile(t *testing.T) (*world, *Conn) {
	w := newWorld(t, testShape(t))
	w.open()
	w.settle()
	<-w.news
	return w, w.ends[0].conn
}

// inject delivers bytes to the first end.
func (w *world) inject(b []byte) {
	e := w.ends[0]
	w.mu.Lock()
	if e.recvs.len() == 0 || e.over {
		w.mu.Unlock()
		return
	}
	e.receive(b)
	w.mu.Unlock()
	for e.deliver(&e.received) {
	}
}

func bytesOfFrame(f frame, payload ...byte) []byte {
	f.length = uint32(len(payload))
	b := append(make([]byte, frameSize), payload...)
	f.put(b)
	return b
}

// TestHostilePeer checks that a violation of the protocol ends the connection with an error that
// describes it.
func TestHostilePeer(t *testing.T) {
	long := make([]byte, rtsSize)
	rts{1 << 20, 1001, 1}.put(long)
	for name, frames := range map[string][][]byte{
		"unknown type":              {bytesOfFrame(frame{typ: 9, limit: 8})},
		"no frame":                  {{1, 2, 3}},
		"credit goes back":          {bytesOfFrame(frame{typ: typeCredit, limit: 7})},
		"credit beyond the window":  {bytesOfFrame(frame{typ: typeCredit, limit: 10})},
		"message 2 first":           {bytesOfFrame(frame{typ: typeData, limit: 9, cookie: 2})},
		"message 1 twice":           {bytesOfFrame(frame{typ: typeData, limit: 9, cookie: 1}), bytesOfFrame(frame{typ: typeData, limit: 9, cookie: 1})},
		"FIN of nothing":            {bytesOfFrame(frame{typ: typeFIN, limit: 9, cookie: 1})},
		"CREDIT with a cookie":      {bytesOfFrame(frame{typ: typeCredit, limit: 9, cookie: 1})},
		"CLOSE too early":           {bytesOfFrame(frame{typ: typeClose, limit: 9, cookie: 1})},
		"CLOSE twice":               {bytesOfFrame(frame{typ: typeClose, limit: 9}), bytesOfFrame(frame{typ: typeClose, limit: 9})},
		"message behind CLOSE":      {bytesOfFrame(frame{typ: typeClose, limit: 9}), bytesOfFrame(frame{typ: typeData, limit: 9, cookie: 1})},
		"RTS longer than is taken":  {bytesOfFrame(frame{typ: typeRTS, limit: 9, cookie: 1}, long...)},
		"more messages than credit": tooMany(9),
	} {
		w, c := hostile(t)
		for _, b := range frames {
			w.inject(b)
		}
		<-c.down
		c.mu.Lock()
		first := c.ending.first
		c.mu.Unlock()
		if !errors.Is(first, ErrProtocol) {
			t.Errorf("%s: %v", name, first)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// tooMany returns n messages. The first end has granted 8.
func tooMany(n int) (frames [][]byte) {
	for i := range n {
		frames = append(frames, bytesOfFrame(frame{typ: typeData, limit: 9, cookie: uint64(i + 1)}))
	}
	return frames
}

// TestFaultAfterMessages checks that messages before a violation can be received, and then the error.
func TestFaultAfterMessages(t *testing.T) {
	w, c := hostile(t)
	w.inject(bytesOfFrame(frame{typ: typeData, limit: 9, cookie: 1}, 'x'))
	w.inject(bytesOfFrame(frame{typ: 77}))
	<-c.down
	w.cut()
	w.settle()
	m, err := c.Recv(t.Context())
	if err != nil || string(m.Bytes()) != "x" {
		t.Fatal(m, err)
	}
	m.Release()
	if _, err := c.Recv(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	if err := c.Send(t.Context(), nil); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	var typed *verbs.Error
	if err := c.Close(); err != nil || errors.As(err, &typed) {
		t.Error(err)
	}
}

// FuzzPeer delivers arbitrary frames. The connection accepts them or ends. It never
// queues more messages than it granted.
func FuzzPeer(f *testing.F) {
	add := func(frames ...[]byte) {
		var all []byte
		for _, b := range frames {
			all = append(append(all, byte(len(b))), b...)
		}
		f.Add(all)
	}
	at := make([]byte, rtsSize)
	rts{1 << 20, 100, 1}.put(at)
	add(bytesOfFrame(frame{typ: typeData, limit: 9, cookie: 1}, 1, 2, 3), bytesOfFrame(frame{typ: typeCredit, limit: 9}))
	add(bytesOfFrame(frame{typ: typeRTS, limit: 9, cookie: 1}, at...), bytesOfFrame(frame{typ: typeClose, limit: 9, cookie: 1}))
	add(tooMany(9)...)
	add(bytesOfFrame(frame{typ: typeFIN, limit: 9, cookie: 1}))
	f.Fuzz(func(t *testing.T, all []byte) {
		w, c := hostile(t)
		for len(all) > 0 {
			n := min(int(all[0]), len(all)-1, frameSize+64)
			w.inject(all[1:][:n])
			all = all[1+n:]
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.waiting.len() > c.shape.window {
			t.Errorf("%d messages wait", c.waiting.len())
		}
	})
}

// TestOnlyLargeBuffersAreOpen checks that the peer can read the large messages that are announced to
// it, and no other memory.
func TestOnlyLargeBuffersAreOpen(t *testing.T) {
	w, c := hostile(t)
	if err := c.Send(t.Context(), make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, m := range w.mems {
		if m.access&^verbs.AccessLocalWrite != 0 {
			open++
		}
	}
	if open != 1 {
		t.Errorf("%d regions are open to the peer", open)
	}
}

// TestHugeCompletion checks that a device that reports a message of 2 GiB or more is not believed,
// even if int has 32 bits.
func TestHugeCompletion(t *testing.T) {
	_, c := hostile(t)
	for _, n := range []uint32{1 << 31, 1<<32 - 1} {
		c.mu.Lock()
		err := c.onFrame(0, n)
		c.mu.Unlock()
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
