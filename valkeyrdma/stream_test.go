package valkeyrdma

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// modelAddr and modelKey are the address and the rkey of every model's receive buffer.
const (
	modelAddr = 0x10000
	modelKey  = 7
)

// modelEnd is one end of a connection over a network whose steps a test chooses. Messages arrive in
// order. Each arrives in several steps: parts of the data, then the notice.
type modelEnd struct {
	stream
	peer  *modelEnd
	wire  []flight // posted, but not arrived
	queue []flight // arrived, but not polled by the peer
	ids   []mark   // completed, but not polled
	posts int      // used slots of the send queue
	quiet int      // slots of messages without completion that have arrived since the last completion
	slots []int    // slots that each of ids frees
	recvs int      // receives that this end has posted

	out, in    byte // next byte to write and to read
	wrote, got int  // bytes
}

type flight struct {
	message
	data []byte
	torn int // number of bytes that have arrived
}

func newModel(cfg [2]Config) [2]*modelEnd {
	var ends [2]*modelEnd
	for i := range ends {
		e := &modelEnd{recvs: recvs}
		e.stream = stream{link: e, accepted: i == 1, silent: i == 1, own: memory{control: make([]byte, controlSize), sends: cfg[i].SendBuffer, inline: inlineData}}
		e.own.recv = make([]byte, cfg[i].RecvBuffer)
		(&command{op: registerMemory, buffer: offer{modelAddr, uint32(cfg[i].RecvBuffer), modelKey}}).put(e.own.control[offerAt.off:])
		// The counters wrap around after a few messages.
		e.posted = mark(0).plus(-20, -5000)
		e.done, e.signaled, e.answered = e.posted, e.posted, e.posted
		ends[i] = e
	}
	ends[0].peer, ends[1].peer = ends[1], ends[0]
	return ends
}

func (e *modelEnd) sendBuffer() ([]byte, error) {
	return make([]byte, e.own.sends), nil
}

func (e *modelEnd) post(m *message) error {
	f := flight{message: *m, data: slices.Clone(m.inline)}
	from := e.own.data
	if m.control {
		from = e.own.control
	}
	for _, p := range m.data {
		f.data = append(f.data, from[p.off:][:p.n]...)
	}
	if e.posts++; e.posts > dataSlots+controlSlots {
		return errors.New("the send queue is full")
	}
	e.wire = append(e.wire, f)
	return nil
}

// arrive makes the oldest message arrive by one step.
func (e *modelEnd) arrive(r *rand.Rand) error {
	f := &e.wire[0]
	if left := len(f.data) - f.torn; left > 0 && !f.control {
		n := 1 + r.IntN(left)
		at := f.to.addr - modelAddr + uint64(f.torn)
		if f.to.key != modelKey || at+uint64(n) > uint64(len(e.peer.own.recv)) {
			return fmt.Errorf("%d bytes written to %#x", n, at)
		}
		copy(e.peer.own.recv[at:], f.data[f.torn:][:n])
		f.torn += n
		return nil
	}
	if !f.empty {
		if e.peer.recvs--; e.peer.recvs < 0 {
			return errors.New("no receive is posted")
		}
		e.queue = append(e.queue, *f)
	}
	if e.quiet++; f.signal {
		e.ids, e.slots = append(e.ids, f.id), append(e.slots, e.quiet)
		e.quiet = 0
	}
	e.wire = e.wire[1:]
	return nil
}

// step performs one of the steps that may happen at any time.
func (e *modelEnd) step(r *rand.Rand, what int) error {
	switch what {
	case 0:
		if len(e.wire) > 0 {
			return e.arrive(r)
		}
	case 1:
		if q := &e.peer.queue; len(*q) > 0 {
			f := (*q)[0]
			*q = (*q)[1:]
			e.recvs++
			if f.control {
				e.commanded(f.data)
			} else {
				e.noticed(f.to.length)
			}
		}
	case 2:
		if len(e.ids) > 0 {
			e.posts -= e.slots[0]
			e.completed(e.ids[0])
			e.ids, e.slots = e.ids[1:], e.slots[1:]
		}
	case 3:
		e.settle()
	case 4:
		return e.readSome(1 + r.IntN(9000))
	case 5:
		if r.IntN(20) > 0 {
			return e.writeSome(1 + r.IntN(1+r.IntN(9000)))
		}
		for range 2 * mostUnheard { // more notices than there should be
			if err := e.writeSome(1); err != nil {
				return err
			}
		}
	case 6:
		e.keepAlive()
	case 7:
		e.due = true
		e.release()
	case 8:
		e.flush()
	}
	return e.failed
}

func (e *modelEnd) readSome(n int) error {
	b := make([]byte, n)
	n, err := e.take(b)
	for _, got := range b[:n] {
		if got != e.in {
			return fmt.Errorf("byte %d is %d, want %d", e.got, got, e.in)
		}
		e.in += 7
		e.got++
	}
	return err
}

func (e *modelEnd) writeSome(n int) error {
	b := make([]byte, n)
	for i := range b {
		b[i] = e.out + 7*byte(i)
	}
	n, err := e.write(b)
	e.out += 7 * byte(n)
	e.wrote += n
	return err
}

// TestModel runs random schedules. No byte may be lost or duplicated, no queue may overflow, and no end may wait forever.
func TestModel(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 5
	}
	small := Config{SendBuffer: leastBuffer, RecvBuffer: leastBuffer}
	for _, cfg := range [][2]Config{{small, small}, {small, {SendBuffer: 9001, RecvBuffer: 70_001}}, {{SendBuffer: 300_000, RecvBuffer: 5003}, {SendBuffer: 5000, RecvBuffer: 200_000}}} {
		for seed := range seeds {
			ends := newModel(cfg)
			if err := play(ends, rand.New(rand.NewPCG(seed, 1))); err != nil {
				t.Fatalf("%+v, seed %d: %v; %d sent, %d got; %d sent, %d got", cfg, seed, err, ends[0].wrote, ends[1].got, ends[1].wrote, ends[0].got)
			}
		}
	}
}

func play(ends [2]*modelEnd, r *rand.Rand) error {
	// Each schedule prefers some steps.
	var weights [2][9]int
	for i := range weights {
		for j := range weights[i] {
			weights[i][j] = r.IntN(20)
		}
	}
	for range 4000 {
		i, what := r.IntN(2), r.IntN(9)
		if r.IntN(20) > weights[i][what] {
			continue
		}
		if err := ends[i].step(r, what); err != nil {
			return fmt.Errorf("step %d of end %d: %w", what, i, err)
		}
	}
	// Each end writes much more, while the other one reads only afterwards. No write may wait for the reader of its own end.
	for i, e := range ends {
		want := e.wrote + 3*len(e.peer.own.recv)
		for round := 0; e.wrote < want; round++ {
			if err := e.writeSome(want - e.wrote); err != nil {
				return err
			}
			for what := range 9 {
				if what == 5 {
					continue
				}
				for j, end := range ends {
					if what == 4 && i == j {
						continue // this end doesn't read
					}
					for range 4 {
						if err := end.step(r, what); err != nil {
							return fmt.Errorf("step %d of end %d: %w", what, j, err)
						}
					}
				}
			}
			if round > 100_000 {
				return errors.New("stuck")
			}
		}
	}
	for range 400 {
		for i, e := range ends {
			for _, what := range []int{8, 0, 0, 0, 1, 2, 3, 4} {
				if err := e.step(r, what); err != nil {
					return fmt.Errorf("step %d of end %d: %w", what, i, err)
				}
			}
		}
	}
	for i, e := range ends {
		if e.got != e.peer.wrote || e.outstanding() != 0 || e.posts != 0 || e.held != 0 {
			return fmt.Errorf("end %d: %d got, %d outstanding, %d held", i, e.got, e.outstanding(), e.held)
		}
	}
	return nil
}

// TestFewNotices checks that an end to which nothing arrives sends few notices, even if it writes
// small pieces. The peer's receives must suffice for them. The peer's buffer must fill up without the
// timer.
func TestFewNotices(t *testing.T) {
	for _, sends := range []int{leastBuffer, defaultSendBuffer} {
		cfg := Config{SendBuffer: sends, RecvBuffer: defaultRecvBuffer}
		ends := newModel([2]Config{cfg, cfg})
		a, b := ends[0], ends[1]
		r := rand.New(rand.NewPCG(1, 1))
		for range 10 { // both ends offer their buffers
			for _, e := range ends {
				for what := range 4 {
					_ = e.step(r, what)
				}
			}
		}
		for a.wrote < defaultRecvBuffer {
			if err := errors.Join(a.writeSome(min(10, defaultRecvBuffer-a.wrote)), settle(a, r)); err != nil { // b reads nothing
				t.Fatal(err)
			}
		}
		chunk := min(mostData, sends-leastData)
		if n := len(a.queue); n < mostUnheard || n > mostUnheard+defaultRecvBuffer/chunk+1 {
			t.Errorf("%d notices with a buffer of %d", n, sends)
		}
		for range recvs {
			_ = b.step(r, 1)
		}
		if err := b.readSome(defaultRecvBuffer); err != nil || b.got != defaultRecvBuffer {
			t.Errorf("%d bytes, %v", b.got, err)
		}
	}
}

// TestHeldFirst checks that data that is held back is sent before later data, or together with it.
func TestHeldFirst(t *testing.T) {
	s := newModel([2]Config{{SendBuffer: leastBuffer, RecvBuffer: leastBuffer}, {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}})[0]
	s.settle()
	s.to, s.unheard, s.wire = offer{modelAddr, leastBuffer, modelKey}, mostUnheard, nil
	for i, b := range []string{"a", "b", "c"} {
		if i == 2 {
			s.heard()
		}
		if n, err := s.write([]byte(b)); n != 1 || err != nil || i < 2 && len(s.wire) > 0 {
			t.Fatal(n, err, len(s.wire))
		}
	}
	if len(s.wire) != 1 || string(s.wire[0].data) != "abc" || s.wire[0].to.addr != modelAddr || s.wire[0].to.length != 3 {
		t.Errorf("%+v", s.wire)
	}
}

// settle makes all messages of an end arrive and complete.
func settle(e *modelEnd, r *rand.Rand) error {
	for len(e.wire)+len(e.ids) > 0 {
		for _, what := range []int{0, 2, 3} {
			if err := e.step(r, what); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestStreamAllocs checks that neither sending nor receiving allocates.
func TestStreamAllocs(t *testing.T) {
	s := newModel([2]Config{{SendBuffer: leastBuffer, RecvBuffer: leastBuffer}, {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}})[0]
	s.link, s.to = noLink{}, offer{modelAddr, 1 << 31, modelKey}
	s.settle()
	b, offered := make([]byte, leastBuffer/2), make([]byte, commandSize)
	(&command{op: registerMemory, buffer: s.to}).put(offered)
	if n := testing.AllocsPerRun(100, func() {
		for _, n := range []int{10, leastBuffer/2 - 10} {
			s.noticed(uint32(n))
			_, _ = s.take(b)
			_, _ = s.write(b[:n])
		}
		s.to.length = s.sent
		s.commanded(offered)
		s.settle()
		s.completed(s.posted)
		s.keepAlive()
	}); n != 0 || s.failed != nil {
		t.Error(n, "allocations", s.failed)
	}
}

type noLink struct{}

func (noLink) post(*message) error         { return nil }
func (noLink) sendBuffer() ([]byte, error) { return make([]byte, leastBuffer), nil }

// TestHostile checks that every violation of the protocol ends the connection with ErrProtocol. Data
// that arrived before can be read.
func TestHostile(t *testing.T) {
	message := func(op opcode, change func(c *command)) []byte {
		c := &command{op: op, buffer: offer{modelAddr, leastBuffer, modelKey}}
		if change != nil {
			change(c)
		}
		b := make([]byte, commandSize)
		c.put(b)
		return b
	}
	for name, attack := range map[string]func(s *modelEnd){
		"a notice of more than is left": func(s *modelEnd) { s.noticed(leastBuffer - 4) },
		"a notice of 2^32-1 bytes":      func(s *modelEnd) { s.noticed(1<<32 - 1) },
		"a notice before an offer":      func(s *modelEnd) { s.offered = false; s.noticed(0); s.noticed(1) },
		"a short message":               func(s *modelEnd) { s.commanded(make([]byte, 31)) },
		"an empty message":              func(s *modelEnd) { s.commanded(nil) },
		"an unknown opcode":             func(s *modelEnd) { s.commanded(message(4, nil)) },
		"opcode 0xffff":                 func(s *modelEnd) { s.commanded(message(0xffff, nil)) },
		"a buffer before the last is full": func(s *modelEnd) {
			s.commanded(message(registerMemory, nil))
			s.commanded(message(registerMemory, nil))
		},
		"a buffer of 0 bytes": func(s *modelEnd) {
			s.commanded(message(registerMemory, func(c *command) { c.buffer.length = 0 }))
		},
		"a buffer beyond the end": func(s *modelEnd) {
			s.commanded(message(registerMemory, func(c *command) { c.buffer.addr = 1<<64 - 1 }))
		},
		"a question of a server": func(s *modelEnd) { s.accepted = false; s.commanded(message(getServerFeature, nil)) },
		"features": func(s *modelEnd) {
			s.commanded(message(setClientFeature, func(c *command) { c.features = 1 }))
		},
		"too many questions": func(s *modelEnd) {
			for range mostAnswers + 1 {
				s.commanded(message(getServerFeature, nil))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newModel([2]Config{{SendBuffer: leastBuffer, RecvBuffer: leastBuffer}, {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}})[1]
			s.silent = false
			s.settle()
			copy(s.own.recv, "hello")
			s.noticed(5)
			s.commanded(message(keepAlive, nil))
			s.commanded(message(setClientFeature, nil))
			if s.failed != nil {
				t.Fatal(s.failed)
			}
			attack(s)
			if !errors.Is(s.failed, ErrProtocol) {
				t.Fatal(s.failed)
			}
			b := make([]byte, 10)
			if n, err := s.take(b); string(b[:n]) != "hello" || err != nil {
				t.Errorf("%q, %v", b[:n], err)
			}
			if n, err := s.take(b); n != 0 || !errors.Is(err, ErrProtocol) || err == io.EOF {
				t.Errorf("%d, %v", n, err)
			}
			if n, err := s.write([]byte("x")); n != 0 || !errors.Is(err, ErrProtocol) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}

// TestFeatures checks that each feature request gets its answer, one at a time.
func TestFeatures(t *testing.T) {
	s := newModel([2]Config{{SendBuffer: leastBuffer, RecvBuffer: leastBuffer}, {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}})[1]
	s.silent = false
	s.settle()
	b := make([]byte, commandSize)
	for i := range mostAnswers {
		(&command{op: getServerFeature, selector: uint16(i)}).put(b)
		s.commanded(b)
	}
	for i := range mostAnswers {
		s.settle()
		s.settle()
		if len(s.wire) != i+2 {
			t.Fatalf("%d messages after %d answers", len(s.wire)-1, i)
		}
		c, err := parseCommand(s.wire[i+1].data)
		if err != nil || c.op != getServerFeature || int(c.selector) != i || c.features != 0 {
			t.Errorf("%+v, %v", c, err)
		}
		s.completed(s.posted)
	}
}

// TestCommands checks that control messages have the format of the protocol's specification.
func TestCommands(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, commandSize)
	(&command{op: registerMemory, buffer: offer{0x0102030405060708, 0x100000, 0x1122}}).put(b)
	want := []byte{0, 3, 15: 0, 16: 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x10, 0, 0, 0, 0, 0x11, 0x22}
	if !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
	(&command{op: setClientFeature, selector: 0x0102, features: 5}).put(b)
	if want := []byte{0, 1, 1, 2, 31: 5}; !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
}

// FuzzStream passes arbitrary notices, control messages and completions to a stream, between reads and writes.
func FuzzStream(f *testing.F) {
	register := make([]byte, commandSize)
	(&command{op: registerMemory, buffer: offer{modelAddr, leastBuffer, modelKey}}).put(register)
	f.Add(append([]byte{1, commandSize}, register...), true)
	f.Add(append(append([]byte{1, commandSize}, register...), 3, 200, 3, 200, 0, 0, 16, 0, 2, 255, 4, 5), false)
	f.Add([]byte{0, 0, 0, 0, 5, 1, 31, 0, 0}, true)
	f.Add([]byte{0, 255, 255, 255, 255}, true)
	f.Fuzz(func(t *testing.T, b []byte, accepted bool) {
		s := newModel([2]Config{{SendBuffer: leastBuffer, RecvBuffer: leastBuffer}, {SendBuffer: leastBuffer, RecvBuffer: leastBuffer}})[1]
		s.silent, s.accepted = false, accepted
		s.settle()
		buf := make([]byte, leastBuffer)
		for len(b) > 0 {
			op := b[0]
			b = b[1:]
			n := 0
			if len(b) > 0 {
				n = int(b[0])
			}
			switch op % 7 {
			case 0:
				var v uint32
				for i := range min(4, len(b)) {
					v = v<<8 | uint32(b[i])
				}
				b = b[min(4, len(b)):]
				s.noticed(v)
			case 1:
				b = b[min(1, len(b)):]
				n = min(n, len(b))
				s.commanded(b[:n])
				b = b[n:]
			case 2:
				_, _ = s.take(buf[:n])
			case 3:
				_, _ = s.write(buf[:n*16])
			case 4:
				s.completed(s.posted)
				s.posts = 0
			case 5:
				s.settle()
			case 6:
				s.keepAlive()
				s.flush()
			}
			for _, f := range s.wire {
				if !f.control && !f.empty && (f.to.length == 0 || uint64(f.to.length) > uint64(s.to.length)) {
					t.Fatalf("%d bytes are sent to a buffer of %d", f.to.length, s.to.length)
				}
			}
			s.wire = nil
			if s.read > s.arrived || s.arrived > len(s.own.recv) || s.sent > s.to.length || s.held > s.own.sends || len(s.answers) > mostAnswers {
				t.Fatalf("%+v", s.stream)
			}
		}
	})
}
