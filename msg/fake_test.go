package msg

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/verbs"
)

// world holds two connected ends. Nothing moves by itself: a test takes the steps.
type world struct {
	t    *testing.T
	mu   sync.Mutex
	ends [2]*fakeEnd
	mems []*fakeMem
	next uint64 // address
	news signal // something was posted
}

// fakeEnd is a link. Its queues are those of a queue pair with two CQs.
type fakeEnd struct {
	w        *world
	peer     *fakeEnd
	conn     *Conn
	sends    fifo[fakeSend]
	recvs    fifo[verbs.RecvWR]
	sent     fifo[verbs.WC]
	received fifo[verbs.WC]
	over     bool // the queue pair is in the error state
	quiet    int  // sends without a completion since the last one with one
	closed   bool
	refuse   func(*verbs.SendWR) error // may be nil
}

// fakeSend is a copy of a posted work request.
type fakeSend struct {
	verbs.SendWR
	sge    verbs.SGE
	inline [frameSize + rtsSize]byte
}

// fakeMem is a memory region. Its addresses are not pointers.
type fakeMem struct {
	w      *world
	b      []byte
	addr   uint64
	key    uint32
	access verbs.Access
	closed bool
}

func (m *fakeMem) SGE(off, n int) verbs.SGE {
	return verbs.SGE{Addr: m.addr + uint64(off), Length: uint32(n), LKey: m.key}
}
func (m *fakeMem) Addr() uint64 { return m.addr }
func (m *fakeMem) RKey() uint32 { return m.key }
func (m *fakeMem) Close() error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.closed = true
	return nil
}

// newWorld returns two ends that are connected and not open.
func newWorld(t *testing.T, s shape) *world {
	w := &world{t: t, next: 1 << 20, news: newSignal()}
	for i := range w.ends {
		w.ends[i] = &fakeEnd{w: w, sends: newFIFO[fakeSend](64), recvs: newFIFO[verbs.RecvWR](64), sent: newFIFO[verbs.WC](64), received: newFIFO[verbs.WC](64)}
	}
	for i, e := range w.ends {
		e.peer = w.ends[1-i]
		e.conn = newConn(e, uint32(i+1), s, w)
		if err := e.conn.prepare(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// open opens both ends. The first one has dialled.
func (w *world) open() {
	w.ends[1].conn.open(w.ends[0].conn.shape.hello(), false)
	w.ends[0].conn.open(w.ends[1].conn.shape.hello(), true)
}

func (e *fakeEnd) register(b []byte, access verbs.Access) (memory, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	m := &fakeMem{w: e.w, b: b, addr: e.w.next, key: uint32(len(e.w.mems) + 1), access: access}
	e.w.next += uint64(len(b)+4095) &^ 4095
	e.w.mems = append(e.w.mems, m)
	return m, nil
}

// find returns registered bytes, or nil if there are none.
func (w *world) find(addr, n uint64, key uint32, access verbs.Access) []byte {
	if key == 0 || int(key) > len(w.mems) {
		return nil
	}
	m := w.mems[key-1]
	if off := addr - m.addr; !m.closed && m.access&access == access && addr >= m.addr && off+n <= uint64(len(m.b)) {
		return m.b[off:][:n]
	}
	return nil
}

func (e *fakeEnd) PostSend(wrs []verbs.SendWR) (int, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for i, wr := range wrs {
		if e.refuse != nil {
			if err := e.refuse(&wrs[i]); err != nil {
				return i, err
			}
		}
		s := fakeSend{SendWR: wr}
		copy(s.inline[:], wr.Inline)
		if len(wr.SGL) > 0 {
			s.sge = wr.SGL[0]
		}
		e.sends.push(s)
		if n, most := e.sends.len()+e.sent.len()+e.quiet, e.conn.shape.sends(); n > most {
			e.w.t.Errorf("%d work requests in a send queue of %d", n, most)
		}
	}
	e.flushIfOver()
	return len(wrs), nil
}

func (e *fakeEnd) PostRecv(wrs []verbs.RecvWR) (int, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for _, wr := range wrs {
		e.recvs.push(wr)
	}
	if n, most := e.recvs.len(), e.conn.shape.receives(); n > most {
		e.w.t.Errorf("%d work requests in a receive queue of %d", n, most)
	}
	e.flushIfOver()
	return len(wrs), nil
}

func (e *fakeEnd) flushIfOver() {
	e.w.news.raise()
	if !e.over || e.closed {
		return
	}
	for ; e.sends.len() > 0; e.sends.pop() {
		e.sent.push(verbs.WC{WRID: e.sends.head().WRID, Status: verbs.StatusWRFlushErr})
	}
	for ; e.recvs.len() > 0; e.recvs.pop() {
		e.received.push(verbs.WC{WRID: e.recvs.head().WRID, Status: verbs.StatusWRFlushErr})
	}
}

func (e *fakeEnd) explain(err error) error {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if e.over {
		return rdmacm.ErrDisconnected
	}
	return err
}

func (e *fakeEnd) disconnect() { e.w.cut() }

func (e *fakeEnd) close() error {
	e.w.cut()
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.closed = true
	e.sends.size, e.recvs.size, e.sent.size, e.received.size = 0, 0, 0, 0
	return nil
}

// cut ends the connection.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.ends {
		e.over = true
		e.flushIfOver()
	}
}

// carry carries out the oldest send of e.
func (e *fakeEnd) carry() bool {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if e.sends.len() == 0 || e.over {
		return false
	}
	wr := e.sends.head()
	status := e.perform(wr)
	if e.quiet++; status != verbs.StatusSuccess || wr.Flags&verbs.SendSignaled != 0 {
		e.sent.push(verbs.WC{WRID: wr.WRID, Status: status})
		e.quiet = 0
	}
	e.sends.pop()
	if status != verbs.StatusSuccess {
		for _, e := range e.w.ends {
			e.over = true
			e.flushIfOver()
		}
	}
	return true
}

func (e *fakeEnd) perform(wr *fakeSend) verbs.Status {
	data := wr.inline[:len(wr.Inline)]
	if s := wr.sge; s != (verbs.SGE{}) {
		if data = e.w.find(s.Addr, uint64(s.Length), s.LKey, 0); data == nil {
			e.w.t.Errorf("a work request names no memory: %+v", wr)
			return verbs.StatusLocProtErr
		}
	}
	remote := func(access verbs.Access) []byte {
		return e.w.find(wr.RemoteAddr, uint64(len(data)), wr.RKey, access)
	}
	switch {
	case wr.Opcode == verbs.OpSend:
		return e.peer.receive(data)
	case len(data) == 0:
		return verbs.StatusSuccess
	case wr.Opcode == verbs.OpRDMARead && remote(verbs.AccessRemoteRead) != nil:
		copy(data, remote(verbs.AccessRemoteRead))
	case wr.Opcode == verbs.OpRDMAWrite && remote(verbs.AccessRemoteWrite) != nil:
		copy(remote(verbs.AccessRemoteWrite), data)
	case wr.Opcode == verbs.OpFetchAdd && remote(verbs.AccessRemoteAtomic) != nil:
		at := remote(verbs.AccessRemoteAtomic)
		copy(data, at)
		binary.NativeEndian.PutUint64(at, binary.NativeEndian.Uint64(at)+wr.CompareAdd)
	case wr.Opcode == verbs.OpCompareSwap && remote(verbs.AccessRemoteAtomic) != nil:
		at := remote(verbs.AccessRemoteAtomic)
		copy(data, at)
		if binary.NativeEndian.Uint64(at) == wr.CompareAdd {
			binary.NativeEndian.PutUint64(at, wr.Swap)
		}
	default:
		return verbs.StatusRemAccessErr
	}
	return verbs.StatusSuccess
}

// receive takes a message, as siw does: an empty queue is an error.
func (e *fakeEnd) receive(data []byte) verbs.Status {
	if e.recvs.len() == 0 {
		e.w.t.Error("a message met an empty receive queue")
		return verbs.StatusRemOpErr
	}
	wr := *e.recvs.head()
	e.recvs.pop()
	s := wr.SGL[0]
	if int(s.Length) < len(data) {
		e.w.t.Errorf("%d bytes into a receive of %d", len(data), s.Length)
		return verbs.StatusRemOpErr
	}
	copy(e.w.find(s.Addr, uint64(s.Length), s.LKey, verbs.AccessLocalWrite), data)
	e.received.push(verbs.WC{WRID: wr.WRID, Status: verbs.StatusSuccess, ByteLen: uint32(len(data))})
	return verbs.StatusSuccess
}

// deliver hands the oldest completion of a CQ to the connection.
func (e *fakeEnd) deliver(cq *fifo[verbs.WC]) bool {
	e.w.mu.Lock()
	if cq.len() == 0 {
		e.w.mu.Unlock()
		return false
	}
	wc := *cq.head()
	cq.pop()
	e.w.mu.Unlock()
	e.conn.complete(&wc)
	return true
}

// step takes a random step, and reports whether there was one.
func (w *world) step(r *rand.Rand) bool {
	var steps []func() bool
	for _, e := range w.ends {
		steps = append(steps, e.carry,
			func() bool { return e.deliver(&e.sent) },
			func() bool { return e.deliver(&e.received) })
	}
	for _, i := range r.Perm(len(steps)) {
		if steps[i]() {
			return true
		}
	}
	return false
}

// settle takes all possible steps, oldest first.
func (w *world) settle() {
	for again := true; again; {
		again = false
		for _, e := range w.ends {
			for e.carry() || e.deliver(&e.received) || e.deliver(&e.sent) {
				again = true
			}
		}
	}
}

// run takes all steps as they become possible, until stop.
func (w *world) run() (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			w.settle()
			select {
			case <-w.news:
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-done }
}

func (e *fakeEnd) String() string {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	c := e.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("allowance %+v, grants %+v, %d waiting, %d lent, %d FINs due, %d control frames, %d outstanding, failing %v",
		c.allow, c.grant, c.waiting.len(), c.lent.count, c.fins.len(), c.controls, c.outstanding, c.ending.failing)
}
