package rsocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// Where the memory of every model's end begins, as its peer knows it.
const (
	modelTable = 0x1000
	modelRecv  = 0x2000
	modelMap   = 0x100000 // memory that the end may map a half of, or all
	mapSize    = 2048
)

// modelEnd is one end over a network that a test moves. Messages arrive in order, each in
// steps: a part of the data, the rest, the word.
type modelEnd struct {
	*stream
	peer   *modelEnd
	sizes  Config
	wire   []flight // posted, not arrived
	words  []word   // arrived, not taken
	done   []done   // completed, not taken
	quiet  int      // slots of those that arrived since the last one that completes
	posted int      // slots of the send queue in use
	recvs  int      // receives that are posted

	out, in          byte   // next byte to write and to read
	sent, got        int    // bytes
	shared, expected []byte // mapped memory, and the data that the peer has written there
	eof              bool
	closing          bool
}

type done struct {
	id    refund
	slots int // of the send queue
}

type flight struct {
	message
	slots int
	data  []byte
	torn  int // bytes that have arrived
}

func newModel(sizes [2]Config, iwarp bool) (a, b *modelEnd) {
	ends := [2]*modelEnd{}
	var hellos [2]hello
	for i := range ends {
		z := sizes[i]
		ends[i] = &modelEnd{sizes: z, recvs: z.RecvQueue + spareRecvs}
		hellos[i] = hello{bigEndian: bigEndian, credits: uint16(z.RecvQueue), table: offer{modelTable, 7, tableEntries}, mappings: 2,
			buffer: offer{modelRecv, 7, uint32(z.RecvBuffer / 2)}}
	}
	for i, e := range ends {
		z := sizes[i]
		e.shared, e.expected = make([]byte, mapSize), make([]byte, mapSize)
		own := memory{table: make(table, tableEntries*offerSize), mappings: make([]byte, 2*mappingSize), recv: make([]byte, z.RecvBuffer), send: make([]byte, z.SendBuffer),
			addr: modelRecv, key: 7, inline: inlineData}
		e.peer = ends[1-i]
		e.stream = newStream(e, own, hellos[1-i], z.SendQueue, uint16(z.RecvQueue), iwarp)
		e.stream.silent = iwarp && i == 1
	}
	// Counts of 16 bits wrap after a few messages.
	const start = 65500
	for _, e := range ends {
		e.window.seq += start
		e.window.limit += start
		e.stream.in.seq += start
		e.stream.in.sent += start
	}
	return ends[0], ends[1]
}

func (e *modelEnd) post(m *message) error {
	f := flight{message: *m, slots: 1, data: append([]byte(nil), m.inline...)}
	for _, p := range m.data {
		f.data = append(f.data, e.own.send[p.off:][:p.n]...)
	}
	if e.iwarp && len(f.data) > 0 && !f.bare {
		f.slots = 2
	}
	if e.posted += f.slots; e.posted > e.sizes.SendQueue+spareSlots {
		return errors.New("the send queue is full")
	}
	e.wire = append(e.wire, f)
	return nil
}

// arrive lets a step of the oldest message happen.
func (e *modelEnd) arrive(r *rand.Rand) error {
	f := &e.wire[0]
	if f.torn < len(f.data) {
		n := 1 + r.IntN(len(f.data)-f.torn)
		if len(f.data) == offerSize || f.word.op() == opIOMap {
			n = 8 // an aligned half at a time, as a device and a kernel do it
		}
		if err := e.peer.place(f.to.addr+uint64(f.torn), f.to.key, f.data[f.torn:][:n]); err != nil {
			return err
		}
		f.torn += n
		return nil
	}
	if !f.bare {
		if e.peer.recvs--; e.peer.recvs < 0 {
			return errors.New("no receive is posted")
		}
		e.peer.words = append(e.peer.words, f.word)
	}
	if e.quiet += f.slots; !f.message.quiet {
		e.done = append(e.done, done{f.id, e.quiet})
		e.quiet = 0
	}
	e.wire = e.wire[1:]
	return nil
}

func (e *modelEnd) place(addr uint64, key uint32, b []byte) error {
	for _, m := range []struct {
		at uint64
		b  []byte
	}{{modelTable, e.own.table}, {modelTable + tableEntries*offerSize, e.own.mappings}, {modelRecv, e.own.recv}, {modelMap, e.shared}} {
		if off := addr - m.at; addr >= m.at && off+uint64(len(b)) <= uint64(len(m.b)) && key == 7 {
			copy(m.b[off:], b)
			return nil
		}
	}
	return fmt.Errorf("%d bytes written to %#x", len(b), addr)
}

// step does one thing out of those that may happen at any time.
func (e *modelEnd) step(r *rand.Rand, what int) error {
	switch what {
	case 0:
		if len(e.wire) > 0 {
			return e.arrive(r)
		}
	case 1:
		if len(e.words) > 0 {
			w := e.words[0]
			e.words = e.words[1:]
			e.recvs++
			e.arrived(w)
		}
	case 2:
		if len(e.done) > 0 {
			e.posted -= e.done[0].slots
			e.completed(e.done[0].id)
			e.done = e.done[1:]
		}
	case 3:
		e.settle()
	case 4:
		return e.readSome(1 + r.IntN(3000))
	case 5:
		return e.writeSome(1 + r.IntN(1+r.IntN(9000)))
	case 6:
		e.keepAlive()
	case 7:
		return e.mapSome(r.IntN(2))
	case 8:
		return e.writeSomewhere(r)
	}
	return e.failed
}

func (e *modelEnd) readSome(n int) error {
	b := make([]byte, n)
	n, err := e.read(b)
	if e.eof = e.eof || err == io.EOF; err == io.EOF {
		err = nil
	}
	for _, got := range b[:n] {
		if got != e.in {
			return fmt.Errorf("byte %d is %d, want %d", e.got, got, e.in)
		}
		e.in++
		e.got++
	}
	return err
}

// mapSome maps one of the halves, the second behind the first.
func (e *modelEnd) mapSome(i int) error {
	if e.closing {
		return nil
	}
	at := uint64(i) * mapSize / 2
	m := mapping{at, offer{modelMap + at, 7, mapSize / 2}}
	_, err := e.announce(m.marshal(e.peer.stream.peer.order()), uint64(i))
	return err
}

// writeSomewhere writes to the peer's mapped memory.
func (e *modelEnd) writeSomewhere(r *rand.Rand) error {
	if e.closing {
		return nil
	}
	at := r.IntN(mapSize)
	b := make([]byte, 1+r.IntN(mapSize-at))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	n, err := e.writeAt(b, uint64(at))
	if errors.Is(err, ErrNotMapped) {
		if _, ok := e.find(uint64(at + n)); ok {
			return err
		}
		err = nil
	}
	copy(e.peer.expected[at:], b[:n])
	return err
}

func (e *modelEnd) writeSome(n int) error {
	if e.closing {
		return nil
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = e.out + byte(i)
	}
	n, err := e.write(b)
	e.out += byte(n)
	e.sent += n
	return err
}

// TestModel checks that under all schedules, no byte is lost or doubled, no queue overflows, and no
// end waits for ever.
func TestModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 6
	}
	small := Config{SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 16, RecvQueue: 16}
	for _, sizes := range [][2]Config{{small, small}, {small, {SendBuffer: 8192, RecvBuffer: 20000, SendQueue: 40, RecvQueue: 100}},
		{{SendBuffer: 5000, RecvBuffer: 4098, SendQueue: 17, RecvQueue: 19}, small}} {
		for _, iwarp := range []bool{false, true} {
			for seed := range seeds {
				a, b := newModel(sizes, iwarp)
				if err := play(a, b, rand.New(rand.NewPCG(seed, 1))); err != nil {
					t.Fatalf("%+v, iwarp %v, seed %d: %v; %d sent, %d got; %d sent, %d got", sizes, iwarp, seed, err, a.sent, b.got, b.sent, a.got)
				}
			}
		}
	}
}

func play(a, b *modelEnd, r *rand.Rand) error {
	ends := [2]*modelEnd{a, b}
	// Each schedule prefers some steps to others.
	var weights [2][9]int
	for i := range weights {
		for j := range weights[i] {
			weights[i][j] = r.IntN(20)
		}
	}
	for range 3000 {
		i := r.IntN(2)
		what := r.IntN(9)
		if r.IntN(20) > weights[i][what] {
			continue
		}
		if err := ends[i].step(r, what); err != nil {
			return fmt.Errorf("step %d of end %d: %w", what, i, err)
		}
	}
	// Some more, which both read, and the end in one of the ways there are.
	for _, e := range ends {
		want := e.sent + 5000
		for round := 0; e.sent < want; round++ {
			if err := e.writeSome(want - e.sent); err != nil {
				return err
			}
			if err := drain(ends, r); err != nil || round > 10000 {
				return fmt.Errorf("stuck: %w", err)
			}
		}
	}
	for _, e := range ends {
		e.end(false)
		e.closing = true
		if n, err := e.write([]byte{1}); n != 0 || err != syscall.EPIPE {
			return fmt.Errorf("write after the end: %d, %v", n, err)
		}
	}
	for range 100 {
		if err := drain(ends, r); err != nil {
			return err
		}
	}
	for i, e := range ends {
		if !e.eof || e.got != ends[1-i].sent || !e.delivered() || !e.ends.over() || e.stream.sent != 0 || e.ring.used != 0 {
			return fmt.Errorf("end %d: %+v, %d got", i, e.ends, e.got)
		}
		if !bytes.Equal(e.shared, e.expected) {
			return fmt.Errorf("end %d has other bytes in its mapped memory than were written", i)
		}
		if e.slots != e.sizes.SendQueue || e.spare != spareSlots {
			return fmt.Errorf("end %d has %d slots and %d spare ones", i, e.slots, e.spare)
		}
	}
	return nil
}

// drain lets all but writes happen.
func drain(ends [2]*modelEnd, r *rand.Rand) error {
	for range 12 {
		for i, e := range ends {
			for what := range 5 {
				if err := e.step(r, what); err != nil {
					return fmt.Errorf("step %d of end %d: %w", what, i, err)
				}
			}
		}
	}
	return nil
}

// TestModelEnds has two programs write and read at once over a network that takes its time,
// and something happen in the middle. All calls end, and the data that arrived is the
// beginning of the data sent, or all of it after an orderly end.
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

// accidents are the faults of a connection between a device and itself.
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

// endRecord is one end: the data it wrote and read, and why it stopped.
type endRecord struct {
	net.Conn
	sent, got         int
	wrote, read       error
	finished, foreign bool // it wrote all; it read data that was not written
}

func playEnd(t *testing.T, kind rdmatest.Kind, what string, r *rand.Rand) {
	f := newFabric(t, kind)
	small := Config{SendBuffer: 4096, RecvBuffer: 4096, SendQueue: 16, RecvQueue: 16}
	a, b, _, err := f.pipe(small)
	if err != nil {
		t.Fatal(err)
	}
	f.SetLatency(20 * time.Microsecond)
	ends := [2]*endRecord{{Conn: a}, {Conn: b}}
	var all sync.WaitGroup
	for _, e := range ends {
		one, two := rand.New(rand.NewPCG(r.Uint64(), 1)), rand.New(rand.NewPCG(r.Uint64(), 2))
		total := 20_000 + r.IntN(60_000)
		all.Go(func() {
			var calls sync.WaitGroup
			calls.Go(func() { e.write(one, total) })
			calls.Go(func() { e.readOn(two) })
			calls.Wait()
			_ = e.Close() // returns the error of the calls
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

func (e *endRecord) write(r *rand.Rand, total int) {
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

func (e *endRecord) readOn(r *rand.Rand) {
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

// judge reports data that an end should not have read.
func (e *endRecord) judge(peer *endRecord, what string) string {
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
