package msg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
)

// TestModel runs two programs over a world that takes its steps in random order. If
// there are no more steps, no calls to cancel, and a program has not finished, it never
// will.
func TestModel(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { playModel(t, seed, -1) })
	}
}

// TestModelCut cuts the connection at a random step. Every call ends, and the received
// messages are the first of those that were sent.
func TestModelCut(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		cut := int(rand.New(rand.NewPCG(seed, 3)).IntN(1500))
		synctest.Test(t, func(t *testing.T) { playModel(t, seed, cut) })
	}
}

// play is the state that the two programs share.
type play struct {
	t       *testing.T
	w       *world
	cut     bool // the connection will be
	mu      sync.Mutex
	cancels []func() // of the calls that may be cancelled
	rand    *rand.Rand
}

func playModel(t *testing.T, seed uint64, cutAt int) {
	defer func() {
		if t.Failed() {
			t.Logf("with seed %d", seed)
		}
	}()
	r := rand.New(rand.NewPCG(seed, 1))
	s, err := (&Config{EagerSize: 64 + r.IntN(64), Window: 4 + r.IntN(6), MaxMessage: 1000}).shape()
	if err != nil {
		t.Fatal(err)
	}
	p := &play{t: t, w: newWorld(t, s), cut: cutAt >= 0, rand: rand.New(rand.NewPCG(seed, 2))}
	p.w.open()
	done := make(chan struct{})
	counts := [2]int{r.IntN(60), r.IntN(60)}
	var programs sync.WaitGroup
	for i := range p.w.ends {
		programs.Go(func() { p.program(i, counts[i], counts[1-i]) })
	}
	go func() { programs.Wait(); close(done) }()
	for n := 0; ; n++ {
		synctest.Wait()
		if isClosed(done) {
			return
		}
		if n == cutAt {
			p.w.cut()
		}
		if r.IntN(8) == 0 && p.cancelOne() {
			continue
		}
		if !p.w.step(r) && !(cutAt > n) && !p.cancelOne() {
			t.Errorf("deadlock after %d steps:\n%v\n%v", n, p.w.ends[0], p.w.ends[1])
			p.w.cut()
			for p.w.step(r) {
				synctest.Wait()
			}
		}
	}
}

// ctx returns a context that may be canceled at any step.
func (p *play) ctx() (context.Context, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	if p.rand.IntN(4) == 0 {
		p.cancels = append(p.cancels, cancel)
	}
	return ctx, cancel
}

func (p *play) cancelOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.cancels) == 0 {
		return false
	}
	p.cancels[0]()
	p.cancels = p.cancels[1:]
	return true
}

func (p *play) roll(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rand.IntN(n)
}

// message returns the i-th message of an end.
func message(end, i int) []byte {
	r := rand.New(rand.NewPCG(uint64(end), uint64(i)))
	sizes := []int{0, 1, 63, 64, 65, 128, 1000}
	b := make([]byte, sizes[r.IntN(len(sizes))])
	for j := range b {
		b[j] = byte(r.Uint32())
	}
	return b
}

// program sends and receives at the same time. Then the first end closes, and the other
// one waits for io.EOF.
func (p *play) program(end, out, in int) {
	c := p.w.ends[end].conn
	var both sync.WaitGroup
	both.Go(func() { p.send(c, end, out) })
	got := 0
	both.Go(func() { got = p.receive(c, 1-end, in) })
	both.Wait()
	if end == 1 {
		if _, err := c.Recv(context.Background()); got == in && err != io.EOF && !p.cut {
			p.t.Error("no EOF:", err)
		}
	}
	if err := c.Shutdown(context.Background()); err != nil && !p.cut {
		p.t.Error("close:", err)
	}
}

func (p *play) send(c *Conn, end, count int) {
	for i := 0; i < count; {
		ctx, cancel := p.ctx()
		err := p.sendOne(ctx, c, message(end, i))
		cancel()
		switch {
		case err == nil:
			i++
		case errors.Is(err, context.Canceled): // so it was not sent
		case p.cut:
			return
		default:
			p.t.Errorf("send %d: %v", i, err)
			return
		}
	}
}

func (p *play) sendOne(ctx context.Context, c *Conn, b []byte) error {
	if p.roll(2) == 0 {
		return c.Send(ctx, b)
	}
	buf, err := c.Alloc(ctx, len(b))
	if err != nil {
		return err
	}
	copy(buf.Bytes(), b)
	err = c.SendBuffer(ctx, buf)
	buf.Free() // does nothing to one that was sent
	return err
}

// receive keeps some of the messages for a while, less than half the window.
func (p *play) receive(c *Conn, from, count int) int {
	var kept []*Message
	var want [][]byte
	release := func() {
		if !bytes.Equal(kept[0].Bytes(), want[0]) {
			p.t.Error("a message changed")
		}
		kept[0].Release()
		kept, want = kept[1:], want[1:]
	}
	defer func() {
		for len(kept) > 0 {
			release()
		}
	}()
	for i := 0; i < count; {
		ctx, cancel := p.ctx()
		m, err := c.Recv(ctx)
		cancel()
		switch {
		case err == nil:
			if b := message(from, i); !bytes.Equal(m.Bytes(), b) {
				p.t.Errorf("message %d has %d bytes, not these %d", i, len(m.Bytes()), len(b))
			}
			kept, want = append(kept, m), append(want, message(from, i))
			for len(kept) > p.roll(c.shape.window/2) {
				release()
			}
			i++
		case errors.Is(err, context.Canceled):
		case p.cut:
			return i
		default:
			p.t.Errorf("receive %d of %d: %v", i, count, err)
			return i
		}
	}
	return count
}

// TestCloseBehindFlush checks that Shutdown succeeds if the peer's CLOSE arrived before the
// connection ended, though the flushed sends are polled first.
func TestCloseBehindFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := (&Config{}).shape()
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, s)
		w.open()
		w.settle()
		if err := w.ends[0].conn.Close(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- w.ends[1].conn.Shutdown(t.Context()) }()
		synctest.Wait()
		for w.ends[0].carry() {
		}
		w.cut()
		for w.ends[1].deliver(&w.ends[1].sent) {
		}
		synctest.Wait()
		w.settle()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
