package rsocket

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestModelEnds has two programs write and read at once over a network that takes its time,
// and something happen in the middle. Whatever it is, all calls end, and what arrived is the
// beginning of what was written, or all of it where the end was an orderly one.
func TestModelEnds(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 3
	}
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW} {
		for what := range accidents {
			t.Run(kind.String()+" "+what, func(t *testing.T) {
				for seed := range seeds {
					if playEnd(t, kind, what, rand.New(rand.NewPCG(seed, 5))); t.Failed() {
						t.Fatalf("with seed %d", seed)
					}
				}
			})
		}
	}
}

// accidents are what may happen to a connection between a device and itself.
var accidents = map[string]func(d *rdmatest.Device, a, b net.Conn, r *rand.Rand){
	"nothing":         func(*rdmatest.Device, net.Conn, net.Conn, *rand.Rand) {},
	"one closes":      func(_ *rdmatest.Device, a, _ net.Conn, _ *rand.Rand) { _ = a.Close() },
	"both close":      func(_ *rdmatest.Device, a, b net.Conn, _ *rand.Rand) { go a.Close(); _ = b.Close() },
	"the device goes": func(d *rdmatest.Device, _, _ net.Conn, _ *rand.Rand) { d.Remove() },
	"a send fails": func(d *rdmatest.Device, _, _ net.Conn, r *rand.Rand) {
		d.FailSend(r.IntN(3), verbs.StatusRetryExcErr).Optional()
	},
	"a receive fails": func(d *rdmatest.Device, _, _ net.Conn, r *rand.Rand) {
		d.FailRecv(r.IntN(3), verbs.StatusLocProtErr).Optional()
	},
	"a message is cut": func(d *rdmatest.Device, _, _ net.Conn, r *rand.Rand) { d.CutSend(r.IntN(3), r.IntN(2000)).Optional() },
	"a deadline comes": func(_ *rdmatest.Device, a, _ net.Conn, _ *rand.Rand) { _ = a.SetDeadline(time.Now()) },
}

// tellEnd is one end: what it wrote and read, and why it stopped.
type tellEnd struct {
	net.Conn
	sent, got         int
	wrote, read       error
	finished, foreign bool // it wrote all; it read what was not written
}

func playEnd(t *testing.T, kind rdmatest.Kind, what string, r *rand.Rand) {
	f := newFabric(t, kind)
	small := Sizes{SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 16, RecvQueue: 16}
	a, b, _, err := f.pipe(small)
	if err != nil {
		t.Fatal(err)
	}
	f.SetLatency(20 * time.Microsecond)
	ends := [2]*tellEnd{{Conn: a}, {Conn: b}}
	var all sync.WaitGroup
	for _, e := range ends {
		one, two := rand.New(rand.NewPCG(r.Uint64(), 1)), rand.New(rand.NewPCG(r.Uint64(), 2))
		total := 20_000 + r.IntN(60_000)
		all.Go(func() {
			var calls sync.WaitGroup
			calls.Go(func() { e.write(one, total) })
			calls.Go(func() { e.readOn(two) })
			calls.Wait()
			_ = e.Close() // says what the calls said
		})
	}
	time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond) // any moment will do
	accidents[what](f.Host(0).Device(0), a, b, r)
	all.Wait()
	for i, e := range ends {
		if bad := e.judge(ends[1-i], what); bad != "" {
			t.Errorf("end %d: %s: %d of %d bytes, %v; written %d, %v", i, bad, e.got, ends[1-i].sent, e.read, e.sent, e.wrote)
		}
	}
}

func (e *tellEnd) write(r *rand.Rand, total int) {
	b := make([]byte, 9000)
	for e.sent < total {
		n := min(1+r.IntN(len(b)), total-e.sent)
		for i := range n {
			b[i] = byte(e.sent + i)
		}
		n, e.wrote = e.Write(b[:n])
		if e.sent += n; e.wrote != nil {
			return
		}
	}
	e.wrote = e.Conn.(*Conn).CloseWrite()
	e.finished = e.wrote == nil
}

func (e *tellEnd) readOn(r *rand.Rand) {
	b := make([]byte, 9000)
	for e.read == nil {
		var n int
		n, e.read = e.Read(b[:1+r.IntN(len(b))])
		for _, c := range b[:n] {
			e.foreign = e.foreign || c != byte(e.got)
			e.got++
		}
	}
}

// judge tells what an end read that it should not have.
func (e *tellEnd) judge(peer *tellEnd, what string) string {
	var op *net.OpError
	switch {
	case e.foreign:
		return "other bytes arrived"
	case e.got > peer.sent:
		return "more bytes arrived"
	case e.read == io.EOF && e.got != peer.sent:
		return "the end came early"
	case what == "nothing" && (e.read != io.EOF || !peer.finished):
		return "it did not go on to the end"
	case e.read != io.EOF && !errors.As(e.read, &op):
		return fmt.Sprintf("an error of type %T", e.read)
	case e.wrote != nil && !errors.As(e.wrote, &op) && !errors.Is(e.wrote, os.ErrDeadlineExceeded):
		return fmt.Sprintf("an error of type %T", e.wrote)
	}
	return ""
}
