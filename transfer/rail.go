package transfer

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/goverbs/goverbs/internal/foreign"
	"github.com/goverbs/goverbs/internal/onesided"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/topo"
	"github.com/goverbs/goverbs/verbs"
)

const (
	slots    = 64 // work requests that are outstanding on a rail
	maxNotes = 16 // notifications of these
	noteSize = 12 // number and value
	maxTries = 8  // of a piece

	firstPause = 50 * time.Millisecond // between attempts to connect
	lastPause  = 5 * time.Second

	// fenceTime is after how long packets of a closed queue pair are in no network any more.
	fenceTime = 2 * time.Second
)

// piece is a work request.
type piece struct {
	batch  *Batch // nil for a probe, and when the batch was canceled
	op     *Op    // nil for a notification
	opcode verbs.Opcode
	local  Span
	remote *Remote
	at     uint64 // offset in remote
	value  uint32 // of a notification
	number uint64 // of a notification: its number on the rail
	probe  bool   // the first message of a connection
	tries  int
}

// rail is a way to a peer: a device of this engine, one of the peer, and a connection between them.
type rail struct {
	peer           *Peer
	number         int
	device, remote int // numbers of the two devices

	// The peer's lock guards the fields below.
	conn   foreign.Conn // nil while there is none
	to     *rdmacm.Peer // of an SRD queue pair; nil if it is connected
	up     bool         // the peer's device has answered
	blamed bool         // an operation has ended the connection
	failed error        // of the last attempt to connect; nil while the first one after a failure is made
	queue  onesided.Queue[piece]
	added  bool   // to queue, since the last flush
	bytes  int    // outstanding
	reads  int    // outstanding
	notes  int    // outstanding
	sent   window // numbers of notifications that are settled
	next   uint64 // number of the next notification
	note   [maxNotes][noteSize]byte
	held   []piece // undone when the connection ended
	fence  *time.Timer
	ends   int // of connections
}

func newRail(p *Peer, number int) *rail {
	r := &rail{peer: p, number: number, device: number % len(p.engine.pds), remote: number % p.devices}
	r.queue = onesided.Queue[piece]{WRID: func(seq uint32, _ bool) uint64 { return uint64(seq) }, Unordered: true, Settled: r.settle}
	r.queue.Init(slots)
	return r
}

// run connects the rail again and again, until the peer is closed.
func (r *rail) run() {
	p := r.peer
	for pause := firstPause; p.ctx.Err() == nil; {
		wasUp := false
		conn, err := r.connect()
		if err == nil {
			wasUp, err = r.serve(conn)
		}
		if wasUp {
			pause = firstPause
			continue
		}
		r.fail(err)
		select {
		case <-time.After(pause):
		case <-p.ctx.Done():
		}
		pause = min(2*pause, lastPause)
	}
}

// connect makes a connection.
func (r *rail) connect() (foreign.Conn, error) {
	p := r.peer
	ctx, cancel := context.WithTimeout(p.ctx, attemptTimeout)
	defer cancel()
	conn, err := p.dial(ctx, r)
	if errors.Is(err, ErrStale) {
		p.end(err)
	}
	return conn, err
}

// dial connects a rail to an Engine.
func dial(ctx context.Context, r *rail) (foreign.Conn, error) {
	p := r.peer
	stream, err := p.engine.cfg.Dial(ctx, p.address)
	if err != nil {
		return nil, err
	}
	a, err := ask(ctx, stream, &request{kind: kindConnect, rail: uint16(r.number), device: uint16(r.remote), session: p.session})
	if err != nil {
		return nil, err
	}
	if a.engine != p.id {
		_ = stream.Close()
		return nil, ErrStale
	}
	r.release(&a.arrived, -1)
	cfg := p.engine.connection(r.device)
	cfg.QP.Cap = verbs.QPCap{MaxSendWR: slots, MaxRecvWR: 1}
	return oob.Dial(ctx, stream, cfg)
}

// serve handles completions until the connection has ended. It reports whether the rail was up.
func (r *rail) serve(conn foreign.Conn) (wasUp bool, err error) {
	p := r.peer
	defer context.AfterFunc(p.ctx, func() { _ = conn.Disconnect() })()
	silent := time.AfterFunc(attemptTimeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !r.up {
			_ = conn.Disconnect()
		}
	})
	defer silent.Stop()
	p.mu.Lock()
	r.conn, r.to = conn, nil
	if c, ok := conn.(*oob.Conn); ok {
		r.to = c.Peer()
	}
	r.add(piece{opcode: verbs.OpSend, probe: true})
	r.flush()
	p.mu.Unlock()
	var wcs [32]verbs.WC
	for err == nil {
		var n int
		n, err = conn.SendCQ().Wait(context.Background(), wcs[:])
		r.complete(wcs[:n])
	}
	err = errors.Join(cmp.Or(conn.Err(), err), ignoreClosed(conn.Close()))
	p.mu.Lock()
	defer p.mu.Unlock()
	wasUp = r.up
	r.conn, r.up, r.blamed = nil, false, false
	r.queue.End(errEnded) // the queue pair is gone, so no device uses the memory any more
	r.ends++
	r.next, r.sent = 0, window{}
	if len(r.held) > 0 {
		end := r.ends
		r.fence = time.AfterFunc(fenceTime, func() { r.release(nil, end) })
	}
	return wasUp, err
}

// fail notes that an attempt has failed.
func (r *rail) fail(err error) {
	p := r.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	r.failed = fmt.Errorf("rail %d over %s: %w", r.number, p.engine.pds[r.device].Device().Info().Name, err)
	if cause := p.isDown(); cause != nil {
		p.known()
		p.failAll(cause)
	}
}

// release posts the pieces again that the last connection has left undone. A WRITE of that connection, on its way for
// long, must not spoil memory that the program uses for something else once the piece has landed over another rail. So
// the peer has to close its queue pair before, as it has done when it answers. arrived has the numbers of the
// notifications that it has received. If nothing is heard of it, arrived is nil, and end is the number of the
// connection that ended fenceTime ago.
func (r *rail) release(arrived *window, end int) {
	p := r.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if end >= 0 && end != r.ends {
		return
	}
	if r.fence != nil {
		r.fence.Stop()
	}
	for i := range r.held {
		w := &r.held[i]
		b := w.batch
		b.out--
		switch {
		case w.opcode != verbs.OpSend || arrived != nil && !arrived.has(w.number):
			b.again = append(b.again, *w)
		case arrived == nil:
			b.err = ErrUnknown
		}
		p.advance(b)
	}
	clear(r.held)
	r.held = r.held[:0]
	p.post()
}

func (r *rail) hasRoom(opcode verbs.Opcode) bool {
	switch {
	case !r.up || r.queue.Room() == 0:
		return false
	case opcode == verbs.OpRDMARead && r.to == nil: // the limit of SRD is the queue's
		return r.reads < r.conn.InitiatorDepth()
	case opcode == verbs.OpSend:
		return r.notes < maxNotes && r.next-r.sent.base < windowSize-maxNotes // the peer may be behind
	}
	return true
}

// from returns the distance of the rail's device from a region.
func (r *rail) from(region *Region) topo.Distance {
	if region == nil || region.from == nil {
		return topo.Unknown
	}
	return region.from[r.device]
}

// add adds a piece to the queue.
func (r *rail) add(w piece) {
	wr := verbs.SendWR{Opcode: w.opcode}
	if r.to != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = r.to.AH, r.to.QPN, r.to.QKey
	}
	var local verbs.SGE
	switch {
	case w.probe:
		wr.SGL = noSGL
		if target := r.peer.target; target != nil {
			wr.Opcode, wr.RemoteAddr, wr.RKey = verbs.OpRDMAWrite, target.addr, target.keys[r.remote]
		}
	case w.opcode == verbs.OpSend:
		w.number = r.next
		r.next++
		note := r.note[w.number%maxNotes][:]
		binary.BigEndian.PutUint64(note, w.number)
		binary.BigEndian.PutUint32(note[8:], w.value)
		wr.SGL, wr.Inline = noSGL, note
		r.notes++
	default:
		if w.local.region.use() != nil {
			r.refuse(&w, net.ErrClosed)
			return
		}
		local = w.local.region.mrs[r.device].SGE(w.local.off, w.local.n)
		wr.RemoteAddr, wr.RKey = w.remote.addr+w.at, w.remote.keys[r.remote]
		if w.opcode == verbs.OpRDMARead {
			r.reads++
		}
		r.bytes += w.local.n
	}
	r.queue.Add(&wr, local, w)
	r.added = true
}

var noSGL = []verbs.SGE{}

// refuse fails the operation of a piece that is not posted.
func (r *rail) refuse(w *piece, err error) {
	w.op.Err = cmp.Or(w.op.Err, err)
	w.batch.out--
	r.peer.advance(w.batch)
}

// flush posts what was added. A refused post ends the connection.
func (r *rail) flush() {
	if !r.added {
		return
	}
	r.added = false
	if p := r.queue.Post(r.conn.QP().PostSend); p.Err != nil {
		_ = r.conn.Disconnect()
	}
}

// complete handles completions.
func (r *rail) complete(wcs []verbs.WC) {
	p := r.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range wcs {
		r.queue.Complete(uint32(wcs[i].WRID), true, wcs[i].Err())
	}
	p.post()
}

// settle handles the end of a work request.
func (r *rail) settle(w *piece, _ int, err error) {
	r.blamed = r.blamed || err != nil && blamesOperation(err)
	if err != nil && r.to != nil && r.conn != nil {
		_ = r.conn.Disconnect() // which a failed work request of an RC queue pair does
	}
	switch {
	case w.probe:
		if err == nil {
			r.up, r.failed = true, nil
			r.peer.known()
		}
	case w.opcode == verbs.OpSend:
		r.notes--
		r.sent.add(w.number)
	default:
		w.local.region.users.Add(-1)
		r.bytes -= w.local.n
		if w.opcode == verbs.OpRDMARead {
			r.reads--
		}
	}
	if w.batch != nil {
		r.settleOf(w.batch, w, err)
	}
	*w = piece{}
}

// settleOf handles the end of a work request for its batch.
func (r *rail) settleOf(b *Batch, w *piece, err error) {
	switch o := w.op; {
	case err == nil:
		if o != nil {
			o.left -= w.local.n
		}
	case o != nil && o.Err != nil: // another piece has failed
	case blamesOperation(err) || w.tries == maxTries:
		if w.tries == maxTries {
			err = fmt.Errorf("it failed %d times, the last time with: %w", maxTries+1, err)
		}
		if o != nil {
			o.Err = err
		} else {
			b.err = err
		}
	default:
		if !r.blamed {
			w.tries++
		}
		r.held = append(r.held, *w)
		return
	}
	b.out--
	r.peer.advance(b)
}
