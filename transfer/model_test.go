package transfer

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

var modelSeed = flag.Uint64("seed", 0, "run TestModel with this seed only")

// The memory of both ends is divided into blocks. At most one operation at a time uses a block.
const (
	blocks    = 24
	blockSize = 10_000 // several slices
)

// model is a random program, and what it knows of the memory.
type model struct {
	*world
	r              *rand.Rand
	client, server *Engine
	ours, theirs   *Region
	remote         *Remote
	peer           *Peer
	salts          int
	local, far     [blocks]int  // salt of the bytes of each block; unknown after an error
	spoilt         [blocks]bool // a device may still access it
	used           [blocks]bool
	batches        []*modelBatch
	restarts       int
	values         uint32
	sure, perhaps  map[uint32]bool // notifications that must have arrived since the last restart, or may have
	trace          []string
}

const unknown = -1

type modelBatch struct {
	b      *Batch
	ops    []Op
	blocks []int
	cancel context.CancelFunc
	lie    int // the operation that lies, or -1
	notify bool
	value  uint32
	old    bool // from before a restart or Close
	killed bool // canceled
}

func (m *model) logf(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func block(r *Region, i int) []byte { return r.Bytes()[i*blockSize:][:blockSize] }

func (m *model) write(r *Region, i int) int {
	m.salts++
	fill(block(r, i), m.salts)
	return m.salts
}

func (m *model) start() {
	m.restarts++
	name := fmt.Sprint("server", m.restarts%2)
	if m.server != nil {
		if err := m.server.Close(); err != nil {
			m.t.Error(err)
		}
	}
	m.server = m.engine(1, name, nil)
	m.theirs = m.register(m.server, blocks*blockSize)
	m.remote = m.world.remote(m.theirs)
	m.reopen(name)
	for i := range m.far {
		m.far[i] = m.write(m.theirs, i)
	}
	m.sure, m.perhaps = make(map[uint32]bool), make(map[uint32]bool)
}

// reopen ends all batches. Blocks that a failed operation has used are safe again.
func (m *model) reopen(name string) {
	if m.peer != nil {
		if err := m.peer.Close(); err != nil {
			m.t.Error(err)
		}
		for _, b := range m.batches {
			b.old = true
		}
		for len(m.batches) > 0 {
			m.end(0)
		}
		clear(m.spoilt[:])
		if n := m.ours.users.Load(); n != 0 {
			m.t.Errorf("%d work requests use the memory after Close", n)
		}
	}
	for range 20 { // faults may hit the first messages of all rails
		p, err := m.client.Open(m.t.Context(), name)
		if err == nil {
			closeLater(m.t, p)
			m.peer = p
			return
		}
		m.logf("open: %v", err)
	}
	m.t.Fatal("the peer can't be opened")
}

func (m *model) submit() {
	b := &modelBatch{lie: -1, notify: m.r.IntN(3) == 0}
	for range m.r.IntN(5) {
		i := m.r.IntN(blocks)
		if m.used[i] || m.spoilt[i] {
			continue
		}
		m.used[i] = true
		off, n := i*blockSize, blockSize
		op := Op{Opcode: verbs.OpRDMARead, Local: m.ours.Span(off, n), Remote: m.remote, Offset: uint64(off)}
		if m.r.IntN(2) == 0 || m.far[i] == unknown {
			op.Opcode = verbs.OpRDMAWrite
			m.local[i] = m.write(m.ours, i)
		}
		if b.lie < 0 && m.r.IntN(30) == 0 {
			lie := *m.remote
			lie.keys = []uint32{lie.keys[0] ^ 0x7700, lie.keys[1] ^ 0x7700}
			op.Remote, b.lie = &lie, len(b.ops)
		}
		b.ops, b.blocks = append(b.ops, op), append(b.blocks, i)
	}
	ctx, cancel := context.WithCancel(m.t.Context())
	b.cancel = cancel
	var err error
	if b.notify {
		m.values++
		b.value = m.values
		b.b, err = m.peer.SubmitNotify(ctx, b.ops, b.value)
	} else {
		b.b, err = m.peer.Submit(ctx, b.ops)
	}
	m.logf("submit %v, lie %d, notify %d: %v", b.blocks, b.lie, b.value, err)
	if err != nil { // no rail is left
		cancel()
		for _, i := range b.blocks {
			m.used[i] = false
		}
		return
	}
	m.batches = append(m.batches, b)
}

// end waits for a batch, and checks what it has done.
func (m *model) end(n int) {
	b := m.batches[n]
	m.batches = append(m.batches[:n:n], m.batches[n+1:]...)
	err := b.b.Wait()
	b.cancel()
	m.logf("end %v %d: %v", b.blocks, b.value, err)
	failed := false
	for k, i := range b.blocks {
		o := &b.ops[k]
		m.used[i] = false
		isWrite := o.Opcode == verbs.OpRDMAWrite
		switch {
		case o.Err == nil && k == b.lie:
			m.t.Errorf("an operation with a wrong key succeeded")
		case o.Err == nil && isWrite:
			m.far[i] = m.local[i]
		case o.Err == nil:
			m.local[i] = m.far[i]
		default:
			failed, m.spoilt[i] = true, true
			if isWrite {
				m.far[i] = unknown
			}
			m.checkError(b, k == b.lie, o.Err)
			continue
		}
		if !b.old && !bytes.Equal(block(m.ours, i), block(m.theirs, i)) {
			m.t.Errorf("block %d differs", i)
		}
	}
	switch {
	case failed != (err != nil) && !b.notify:
		m.t.Errorf("Wait: %v, operations: %v", err, failed)
	case b.notify && err == nil:
		m.sure[b.value] = true
	case b.notify && !failed:
		m.perhaps[b.value] = true
		m.checkError(b, false, err)
	}
}

func (m *model) checkError(b *modelBatch, lie bool, err error) {
	switch {
	case lie && (errors.Is(err, verbs.StatusRemAccessErr) || errors.Is(err, verbs.StatusRemInvReqErr)):
	case b.killed && errors.Is(err, context.Canceled):
	case b.old && (errors.Is(err, net.ErrClosed) || errors.Is(err, ErrStale)):
	case m.peer.noRail(err):
	case errors.Is(err, ErrUnknown):
	default:
		m.t.Errorf("unexpected error: %v", err)
	}
}

// noRail reports whether an error says that no rail was left.
func (p *Peer) noRail(err error) bool {
	return err != nil && bytes.Contains([]byte(err.Error()), []byte("no rail is left"))
}

func (m *model) step() {
	switch k := m.r.IntN(100); {
	case k < 45:
		m.submit()
	case k < 75 && len(m.batches) > 0:
		m.end(m.r.IntN(len(m.batches)))
	case k < 80 && len(m.batches) > 0:
		b := m.batches[m.r.IntN(len(m.batches))]
		m.logf("cancel %v", b.blocks)
		b.killed = true
		b.cancel()
	case k < 84:
		m.logf("fail a send")
		d, status := m.fabric.Host(0).Device(m.r.IntN(2)), verbs.StatusRetryExcErr
		if d.Kind() == rdmatest.EFA {
			status = verbs.StatusRespTimeoutErr
		}
		d.FailSend(m.r.IntN(20), status).Optional()
	case k < 88:
		m.logf("cut a send")
		m.fabric.Host(m.r.IntN(2)).Device(m.r.IntN(2)).CutSend(m.r.IntN(20), m.r.IntN(1000)).Optional()
	case k < 92:
		d := m.fabric.Host(m.r.IntN(2)).Device(m.r.IntN(2))
		m.logf("link of %s down", d.Name())
		d.SetLink(false)
		time.Sleep(time.Duration(m.r.IntN(2000)) * time.Millisecond) // of the bubble
		d.SetLink(true)
	case k < 97:
		time.Sleep(time.Duration(m.r.IntN(1000)) * time.Microsecond)
	case k < 98:
		m.logf("restart")
		m.start()
	case k < 99:
		m.logf("reopen")
		m.reopen(fmt.Sprint("server", m.restarts%2))
	}
}

// checkLimits checks that no rail has more outstanding than it may.
func (m *model) checkLimits() {
	m.peer.mu.Lock()
	defer m.peer.mu.Unlock()
	for _, r := range m.peer.rails {
		reads, notes, bytes := 0, 0, 0
		r.queue.Outstanding(func(w *piece) {
			switch w.opcode {
			case verbs.OpRDMARead:
				reads++
			case verbs.OpSend:
				notes++
			}
			bytes += w.local.n
		})
		if r.conn != nil && r.to == nil && reads > r.conn.InitiatorDepth() || notes > maxNotes+1 {
			m.t.Errorf("rail %d has %d READs and %d notifications outstanding", r.number, reads, notes)
		}
		if reads != r.reads || bytes != r.bytes {
			m.t.Errorf("rail %d counts %d READs and %d bytes, it has %d and %d", r.number, r.reads, r.bytes, reads, bytes)
		}
	}
}

// TestModel is a program that submits, cancels, waits, reopens and restarts at random, beside links and devices that fail. It knows
// what each block of memory contains.
func TestModel(t *testing.T) {
	seeds := uint64(4)
	for seed := range seeds {
		if *modelSeed != 0 {
			if seed > 0 {
				break
			}
			seed = *modelSeed
		}
		for name, options := range devices {
			t.Run(fmt.Sprintf("%s/seed=%d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { runModel(t, options, seed) })
			})
		}
	}
}

func runModel(t *testing.T, options rdmatest.DeviceOptions, seed uint64) {
	m := &model{world: newWorld(t, options, 2, 2), r: rand.New(rand.NewPCG(seed, 7))}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d:", seed)
			for _, line := range m.trace {
				t.Log(line)
			}
		}
	}()
	if m.r.IntN(2) == 0 {
		m.fabric.SetLatency(20 * time.Microsecond)
		m.fabric.SetBandwidth(10 << 30)
	}
	m.client = m.engine(0, "", nil)
	m.ours = m.register(m.client, blocks*blockSize)
	m.start()
	for range 150 {
		m.step()
		m.checkLimits()
		if t.Failed() {
			return
		}
	}
	for len(m.batches) > 0 {
		m.end(0)
	}
	synctest.Wait()
	for v := uint32(1); v <= m.values; v++ {
		if n := m.server.counts.arrived[v]; n > 1 || n == 1 && !m.sure[v] && !m.perhaps[v] || n == 0 && m.sure[v] {
			t.Errorf("notification %d has arrived %d times; must it: %v; may it: %v", v, n, m.sure[v], m.perhaps[v])
		}
	}
	if err := m.peer.Close(); err != nil {
		t.Error(err)
	}
	for i, salt := range m.far {
		want := make([]byte, blockSize)
		if fill(want, salt); salt != unknown && !bytes.Equal(block(m.theirs, i), want) {
			t.Errorf("block %d of the peer is not what was written", i)
		}
	}
	if err := m.ours.Close(); err != nil {
		t.Error(err)
	}
}
