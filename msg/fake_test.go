package msg

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
)

// world is two ends and what lies between them. Nothing moves by itself: a test takes
// the steps.
type world struct {
	t    *testing.T
	mu   sync.Mutex
	ends [2]*fakeEnd
	mems []*fakeMem
	next uint64 // address
}

// fakeEnd is a link. Its queues are those of a queue pair with two CQs.
type fakeEnd struct {
	w        *world
	peer     *fakeEnd
	conn     *Conn
	sends    []uverbs.SendWR
	recvs    []uverbs.RecvWR
	sent     []uverbs.WC
	received []uverbs.WC
	over     bool // the queue pair is in the error state
	closed   bool
}

// fakeMem is a region. Its addresses are no pointers.
type fakeMem struct {
	w      *world
	b      []byte
	addr   uint64
	key    uint32
	access uverbs.Access
	closed bool
}

func (m *fakeMem) SGE(off, n int) uverbs.SGE {
	return uverbs.SGE{Addr: m.addr + uint64(off), Length: uint32(n), LKey: m.key}
}
func (m *fakeMem) Addr() uint64 { return m.addr }
func (m *fakeMem) RKey() uint32 { return m.key }
func (m *fakeMem) Close() error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.closed = true
	return nil
}

// newWorld has two ends that are connected and not open.
func newWorld(t *testing.T, s shape) *world {
	w := &world{t: t, next: 1 << 20}
	for i := range w.ends {
		w.ends[i] = &fakeEnd{w: w}
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

// open opens both; the first one dialled.
func (w *world) open() {
	w.ends[1].conn.open(w.ends[0].conn.shape.hello(), false)
	w.ends[0].conn.open(w.ends[1].conn.shape.hello(), true)
}

func (e *fakeEnd) register(b []byte, access uverbs.Access) (memory, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	m := &fakeMem{w: e.w, b: b, addr: e.w.next, key: uint32(len(e.w.mems) + 1), access: access}
	e.w.next += uint64(len(b)+4095) &^ 4095
	e.w.mems = append(e.w.mems, m)
	return m, nil
}

// find finds registered bytes; nil: there are none.
func (w *world) find(addr, n uint64, key uint32, access uverbs.Access) []byte {
	if key == 0 || int(key) > len(w.mems) {
		return nil
	}
	m := w.mems[key-1]
	if off := addr - m.addr; !m.closed && m.access&access == access && addr >= m.addr && off+n <= uint64(len(m.b)) {
		return m.b[off:][:n]
	}
	return nil
}

func (e *fakeEnd) PostSend(wrs []uverbs.SendWR) (int, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for _, wr := range wrs {
		wr.SGL, wr.Inline = slices.Clone(wr.SGL), slices.Clone(wr.Inline)
		e.sends = append(e.sends, wr)
		if n, most := len(e.sends)+len(e.sent), e.conn.shape.sends(); n > most {
			e.w.t.Errorf("%d work requests in a send queue of %d", n, most)
		}
	}
	e.flushIfOver()
	return len(wrs), nil
}

func (e *fakeEnd) PostRecv(wrs []uverbs.RecvWR) (int, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.recvs = append(e.recvs, wrs...)
	if n, most := len(e.recvs), e.conn.shape.receives(); n > most {
		e.w.t.Errorf("%d work requests in a receive queue of %d", n, most)
	}
	e.flushIfOver()
	return len(wrs), nil
}

func (e *fakeEnd) flushIfOver() {
	if !e.over || e.closed {
		return
	}
	for _, wr := range e.sends {
		e.sent = append(e.sent, uverbs.WC{WRID: wr.WRID, Status: uverbs.StatusWRFlushErr})
	}
	for _, wr := range e.recvs {
		e.received = append(e.received, uverbs.WC{WRID: wr.WRID, Status: uverbs.StatusWRFlushErr})
	}
	e.sends, e.recvs = nil, nil
}

func (e *fakeEnd) cause() error {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if e.over {
		return rdmacm.ErrDisconnected
	}
	return nil
}

func (e *fakeEnd) disconnect() { e.w.cut() }

func (e *fakeEnd) close() error {
	e.w.cut()
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.closed = true
	e.sends, e.recvs, e.sent, e.received = nil, nil, nil, nil
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
	if len(e.sends) == 0 || e.over {
		return false
	}
	wr := e.sends[0]
	e.sends = e.sends[1:]
	status := e.perform(&wr)
	e.sent = append(e.sent, uverbs.WC{WRID: wr.WRID, Status: status})
	if status != uverbs.StatusSuccess {
		for _, e := range e.w.ends {
			e.over = true
			e.flushIfOver()
		}
	}
	return true
}

func (e *fakeEnd) perform(wr *uverbs.SendWR) uverbs.Status {
	data := wr.Inline
	if wr.Inline == nil && wr.SGL[0] != (uverbs.SGE{}) {
		s := wr.SGL[0]
		if data = e.w.find(s.Addr, uint64(s.Length), s.LKey, 0); data == nil {
			e.w.t.Errorf("a work request names no memory: %+v", wr)
			return uverbs.StatusLocProtErr
		}
	}
	remote := func(access uverbs.Access) []byte {
		return e.w.find(wr.RemoteAddr, uint64(len(data)), wr.RKey, access)
	}
	switch {
	case wr.Opcode == uverbs.OpSend:
		return e.peer.receive(data)
	case len(data) == 0:
		return uverbs.StatusSuccess
	case wr.Opcode == uverbs.OpRDMARead && remote(uverbs.AccessRemoteRead) != nil:
		copy(data, remote(uverbs.AccessRemoteRead))
	case wr.Opcode == uverbs.OpRDMAWrite && remote(uverbs.AccessRemoteWrite) != nil:
		copy(remote(uverbs.AccessRemoteWrite), data)
	case wr.Opcode == uverbs.OpFetchAdd && remote(uverbs.AccessRemoteAtomic) != nil:
		at := remote(uverbs.AccessRemoteAtomic)
		copy(data, at)
		binary.NativeEndian.PutUint64(at, binary.NativeEndian.Uint64(at)+wr.CompareAdd)
	case wr.Opcode == uverbs.OpCompareSwap && remote(uverbs.AccessRemoteAtomic) != nil:
		at := remote(uverbs.AccessRemoteAtomic)
		copy(data, at)
		if binary.NativeEndian.Uint64(at) == wr.CompareAdd {
			binary.NativeEndian.PutUint64(at, wr.Swap)
		}
	default:
		return uverbs.StatusRemAccessErr
	}
	return uverbs.StatusSuccess
}

// receive takes a message, as siw does: an empty queue is an error.
func (e *fakeEnd) receive(data []byte) uverbs.Status {
	if len(e.recvs) == 0 {
		e.w.t.Error("a message met an empty receive queue")
		return uverbs.StatusRemOpErr
	}
	wr := e.recvs[0]
	e.recvs = e.recvs[1:]
	s := wr.SGL[0]
	if int(s.Length) < len(data) {
		e.w.t.Errorf("%d bytes into a receive of %d", len(data), s.Length)
		return uverbs.StatusRemOpErr
	}
	copy(e.w.find(s.Addr, uint64(s.Length), s.LKey, uverbs.AccessLocalWrite), data)
	e.received = append(e.received, uverbs.WC{WRID: wr.WRID, Status: uverbs.StatusSuccess, ByteLen: uint32(len(data))})
	return uverbs.StatusSuccess
}

// deliver hands the oldest completion of a CQ to the connection.
func (e *fakeEnd) deliver(cq *[]uverbs.WC) bool {
	e.w.mu.Lock()
	if len(*cq) == 0 {
		e.w.mu.Unlock()
		return false
	}
	wc := (*cq)[0]
	*cq = (*cq)[1:]
	e.w.mu.Unlock()
	e.conn.complete(&wc)
	return true
}

// step takes one of the steps that there are, and says whether there was one.
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

// settle takes all steps that there are, oldest first.
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

func (e *fakeEnd) String() string {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	c := e.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("allowance %+v, grants %+v, %d waiting, %d lent, %d FINs due, %d control frames, %d outstanding, failing %v",
		c.allow, c.grant, c.waiting.len(), c.loans.count, c.fins.len(), c.controls, c.outstanding, c.ending.failing)
}
