package transfer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/foreign"
	"github.com/goverbs/goverbs/verbs"
)

// Peer is an engine of another program, whose memory this engine reads and writes. Its methods may be called
// concurrently.
//
// Each device of this engine has a rail to a device of the peer. If the peer has more devices, each of those has a
// rail. A rail that fails is connected again, as long as the Peer is open.
type Peer struct {
	engine  *Engine
	address string
	id      [16]byte // of the peer's engine
	session [16]byte // of this Peer
	devices int      // of the peer
	dial    func(context.Context, *rail) (foreign.Conn, error)
	target  *Remote // the probes write nothing to it; nil if they are SENDs
	rails   []*rail
	ctx     context.Context
	stop    context.CancelFunc
	all     sync.WaitGroup // goroutines of rails

	settled chan struct{} // closed when a rail is up, or all have failed

	mu      sync.Mutex // guards the fields below, and those of rails and batches
	ended   error      // no batch is accepted any more, because of this
	isKnown bool       // settled is closed
	batches []*Batch   // in progress
	ready   []*Batch   // those that have something to post
	turn    int        // index in ready: the batch that posts next
	spare   []*Batch
}

// Open connects to the engine whose [Engine.Serve] accepts streams at an address. It returns as soon as one rail is up.
// The others follow. If the peer drops the stream, as it does when many connect at once, Open tries again, with growing
// pauses. It gives up when ctx ends, or after 10 seconds. ctx bounds the attempts only.
func (e *Engine) Open(ctx context.Context, address string) (*Peer, error) {
	return e.openWith(ctx, address, e.open)
}

// openWith opens a peer, again while it drops streams, and bounds the time of that.
func (e *Engine) openWith(ctx context.Context, address string, open func(context.Context, string) (*Peer, error)) (*Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	p, err := (*Peer)(nil), error(net.ErrClosed)
	if !e.isClosed() {
		p, err = dialer.Retry(ctx, patience, func(ctx context.Context) (*Peer, error) { return open(ctx, address) })
	}
	if err != nil && e.isClosed() {
		err = net.ErrClosed
	}
	return p, failed("open", "peer "+address, "", err)
}

// patience is that of Open for an error. A peer that has too many streams closes the oldest, in the middle of anything.
func patience(err error) dialer.Patience {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return dialer.Patiently
		}
	}
	return dialer.OfError(err)
}

func (e *Engine) open(ctx context.Context, address string) (*Peer, error) {
	stream, err := e.cfg.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	a, err := ask(ctx, stream, &request{kind: kindHello})
	if err != nil {
		return nil, err
	}
	_ = stream.Close()
	return e.start(ctx, &Peer{address: address, id: a.engine, devices: a.devices, dial: dial})
}

// start starts the rails of a peer, and waits for the first one.
func (e *Engine) start(ctx context.Context, p *Peer) (*Peer, error) {
	p.engine, p.settled = e, make(chan struct{})
	_, _ = rand.Read(p.session[:]) // never fails
	p.ctx, p.stop = context.WithCancel(e.ctx)
	for i := range max(len(e.pds), p.devices) {
		p.rails = append(p.rails, newRail(p, i))
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, net.ErrClosed
	}
	e.peers[p] = struct{}{}
	for _, r := range p.rails {
		p.all.Go(r.run)
	}
	e.mu.Unlock()
	var err error
	select {
	case <-p.settled:
		err = p.down()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, ignoreClosed(p.Close()))
	}
	return p, nil
}

// down returns why the peer can't be reached, or nil.
func (p *Peer) down() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isDown()
}

// isDown is down with p.mu held.
func (p *Peer) isDown() error {
	if p.ended != nil {
		return p.ended
	}
	var errs []error
	for _, r := range p.rails {
		if r.failed == nil {
			return nil
		}
		errs = append(errs, r.failed)
	}
	return fmt.Errorf("no rail is left: %w", errors.Join(errs...))
}

// Close ends all rails. Batches in progress fail with an error that matches net.ErrClosed. No device accesses memory
// for them once Close has returned. A second Close returns an error that matches net.ErrClosed.
func (p *Peer) Close() error {
	if p == nil {
		return failed("close", "peer", "", os.ErrInvalid)
	}
	p.end(net.ErrClosed)
	p.all.Wait()
	p.mu.Lock()
	p.failAll(net.ErrClosed)
	p.mu.Unlock()
	p.engine.mu.Lock()
	_, open := p.engine.peers[p]
	delete(p.engine.peers, p)
	p.engine.mu.Unlock()
	if !open {
		return failed("close", "peer "+p.address, "", net.ErrClosed)
	}
	return nil
}

// end makes the rails end. The first cause counts.
func (p *Peer) end(cause error) {
	p.mu.Lock()
	p.ended = cmp.Or(p.ended, cause)
	p.known()
	p.mu.Unlock()
	p.stop()
}

// known notes that Open need not wait any longer. p.mu is held.
func (p *Peer) known() {
	if !p.isKnown {
		p.isKnown = true
		close(p.settled)
	}
}

// Format implements [fmt.Formatter]. It prints the address, and how many rails are up.
func (p *Peer) Format(f fmt.State, _ rune) {
	p.mu.Lock()
	defer p.mu.Unlock()
	up := 0
	for _, r := range p.rails {
		if r.up {
			up++
		}
	}
	fmt.Fprintf(f, "transfer peer %s, %d of %d rails up", p.address, up, len(p.rails))
}

// Op is an operation of a batch.
type Op struct {
	// Opcode is verbs.OpRDMARead, which copies bytes of Remote to Local, or OpRDMAWrite, which copies those of Local to
	// Remote.
	Opcode verbs.Opcode
	Local  Span
	Remote *Remote
	Offset uint64 // of the first byte in Remote

	// Err is nil if the operation has been performed. The engine sets it.
	Err error

	left int // bytes that have not been moved
}

// Batch is what [Peer.Submit] has started.
type Batch struct {
	peer  *Peer
	ctx   context.Context
	ops   []Op
	value uint32        // of the notification
	done  chan struct{} // has room for one token

	// The Peer's lock guards the fields below.
	index  int     // of the first operation that has not been cut completely
	off    int     // how many of its bytes have been
	again  []piece // that a rail has left undone
	out    int     // pieces that are posted, or held by a failed rail
	notify bool    // the notification has not been cut
	listed bool    // in Peer.ready
	err    error   // of the notification
}

// Format implements [fmt.Formatter]. It prints the peer's address.
func (b *Batch) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "batch for %s", b.peer.address) }

// Submit starts a batch of operations on the peer's memory. They are performed in any order, and so are the bytes of
// each. Its slices take turns with those of other batches. The engine owns ops, and the memory, until [Batch.Wait]
// returns. Each batch must be waited for. A batch that is no longer than earlier ones allocates nothing.
//
// If one operation is invalid, such as one beyond the end of its region, none is performed, and Submit returns the
// error.
//
// When ctx ends, Wait cancels the batch.
func (p *Peer) Submit(ctx context.Context, ops []Op) (*Batch, error) {
	return p.submit(ctx, ops, 0, false)
}

// SubmitNotify is like Submit, and notifies the peer when all operations have been performed: see [Engine.Await]. Then
// the peer finds the bytes of all WRITEs in its memory. If an operation fails, there is no notification. The batch ends
// when the peer's device has received the notification, which arrives once. If Wait returns an error that matches
// [ErrUnknown], it may have arrived.
func (p *Peer) SubmitNotify(ctx context.Context, ops []Op, value uint32) (*Batch, error) {
	return p.submit(ctx, ops, value, true)
}

func (p *Peer) submit(ctx context.Context, ops []Op, value uint32, notify bool) (*Batch, error) {
	for i := range ops {
		if err := p.check(&ops[i]); err != nil {
			return nil, p.refused(opFailed(i, len(ops), err))
		}
		ops[i].Err, ops[i].left = nil, ops[i].Local.n
	}
	if err := ctx.Err(); err != nil {
		return nil, p.refused(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.isDown(); err != nil {
		return nil, p.refused(err)
	}
	var b *Batch
	if last := len(p.spare) - 1; last >= 0 {
		b, p.spare = p.spare[last], p.spare[:last]
	} else {
		b = &Batch{peer: p, done: make(chan struct{}, 1)}
	}
	b.ctx, b.ops, b.value, b.notify = ctx, ops, value, notify
	p.batches = append(p.batches, b)
	p.advance(b)
	p.post()
	return b, nil
}

func (p *Peer) refused(err error) error {
	return failed("submit a batch to", "peer "+p.address, "", err)
}

func opFailed(i, n int, err error) error {
	return fmt.Errorf("operation %d of %d: %w", i+1, n, err)
}

func (p *Peer) check(o *Op) error {
	right := verbs.AccessRemoteRead
	switch o.Opcode {
	case verbs.OpRDMARead:
	case verbs.OpRDMAWrite:
		right = verbs.AccessRemoteWrite
	default:
		return fmt.Errorf("%w: %v is neither READ nor WRITE", verbs.ErrInvalidWR, o.Opcode)
	}
	switch r, n := o.Remote, uint64(o.Local.n); {
	case o.Local.region == nil || o.Local.region.engine != p.engine:
		return fmt.Errorf("%w: the span is not in memory of this engine", ErrOutOfBounds)
	case r == nil:
		return fmt.Errorf("%w: Remote is nil", verbs.ErrInvalidWR)
	case r.engine != p.id || len(r.keys) != p.devices:
		return ErrStale
	case o.Offset > r.length || n > r.length-o.Offset:
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrOutOfBounds, n, o.Offset, r.length)
	case r.access&right == 0:
		return fmt.Errorf("%w: %v of a region with access %v", ErrOutOfBounds, o.Opcode, r.access)
	}
	return nil
}

// Wait waits until the batch has ended. It returns nil if the Err of each operation is nil, and otherwise the first of
// these errors, or the error of the notification. Wait must be called once. The Batch is not to be used afterwards.
//
// If the ctx of Submit ends first, Wait cancels what has not been posted, and returns at once. Devices can't cancel the
// rest: they may still access the memory of operations whose Err matches ctx.Err(), until [Region.Close] succeeds. So
// may the device of a rail that has failed access the peer's memory after another error, until Close of the Peer.
func (b *Batch) Wait() error {
	p := b.peer
	select {
	case <-b.done:
	case <-b.ctx.Done():
		p.cancel(b)
	}
	err := cmp.Or(b.firstError(), b.err)
	p.mu.Lock()
	defer p.mu.Unlock()
	*b = Batch{peer: p, done: b.done, again: b.again[:0]}
	p.spare = append(p.spare, b)
	if err != nil {
		err = failed("transfer", "batch with peer "+p.address, "", err)
	}
	return err
}

func (b *Batch) firstError() error {
	for i := range b.ops {
		if err := b.ops[i].Err; err != nil {
			return opFailed(i, len(b.ops), err)
		}
	}
	return nil
}

// cancel ends a batch early. Pieces that are posted go on without it.
func (p *Peer) cancel(b *Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-b.done: // meanwhile
		return
	default:
	}
	p.abandon(b)
	p.fail(b, b.ctx.Err())
	<-b.done
}

// abandon makes posted pieces forget their batch. p.mu is held.
func (p *Peer) abandon(b *Batch) {
	for _, r := range p.rails {
		r.queue.Outstanding(func(w *piece) {
			if w.batch == b {
				w.batch, w.op = nil, nil
			}
		})
		r.held = slices.DeleteFunc(r.held, func(w piece) bool { return w.batch == b })
	}
	b.out = 0
}

// fail ends a batch that has nothing posted. p.mu is held.
func (p *Peer) fail(b *Batch, err error) {
	for i := range b.ops {
		if o := &b.ops[i]; o.left > 0 && o.Err == nil {
			o.Err = err
		}
	}
	if b.err == nil {
		b.err = err
	}
	b.index, b.again, b.notify = len(b.ops), b.again[:0], false
	p.finish(b)
}

// failAll ends all batches, because no rail is left. p.mu is held.
func (p *Peer) failAll(err error) {
	for len(p.batches) > 0 {
		b := p.batches[0]
		p.abandon(b)
		p.fail(b, err)
	}
}

// finish ends a batch. p.mu is held.
func (p *Peer) finish(b *Batch) {
	if i := slices.Index(p.ready, b); i >= 0 {
		p.unlist(i)
	}
	i := slices.Index(p.batches, b)
	p.batches = slices.Delete(p.batches, i, i+1)
	b.done <- struct{}{}
}

func (p *Peer) unlist(i int) {
	p.ready[i].listed = false
	p.ready = slices.Delete(p.ready, i, i+1)
	if i < p.turn {
		p.turn--
	}
}

// advance lists a batch that has something to post, and finishes one that has nothing left. p.mu is held.
func (p *Peer) advance(b *Batch) {
	switch _, _, some := b.next(); {
	case some && !b.listed:
		b.listed = true
		p.ready = append(p.ready, b)
	case !some && b.out == 0:
		p.finish(b)
	}
}

// next returns the opcode of the next piece and the region of its local memory, if the batch has one to post now.
func (b *Batch) next() (verbs.Opcode, *Region, bool) {
	for n := len(b.again); n > 0; n = len(b.again) {
		if w := &b.again[n-1]; w.op == nil || w.op.Err == nil {
			return w.opcode, w.local.region, true
		}
		b.again = b.again[:n-1] // another piece of the operation has failed
	}
	for b.index < len(b.ops) {
		if o := &b.ops[b.index]; o.Err == nil && b.off < o.Local.n {
			return o.Opcode, o.Local.region, true
		}
		b.index, b.off = b.index+1, 0
	}
	if b.notify && b.out == 0 {
		if b.notify = b.firstError() == nil; b.notify {
			return verbs.OpSend, nil, true
		}
	}
	return 0, nil, false
}

// cut returns the piece that next has found. It has at most size bytes.
func (b *Batch) cut(size int) (w piece) {
	switch n := len(b.again); {
	case n > 0:
		w, b.again = b.again[n-1], b.again[:n-1]
	case b.index < len(b.ops):
		o := &b.ops[b.index]
		w = piece{batch: b, op: o, opcode: o.Opcode, local: Span{o.Local.region, o.Local.off + b.off, min(size, o.Local.n-b.off)},
			remote: o.Remote, at: o.Offset + uint64(b.off)}
		b.off += w.local.n
	default:
		b.notify = false
		w = piece{batch: b, opcode: verbs.OpSend, value: b.value}
	}
	b.out++
	return w
}

// post posts pieces as long as there is room for them on a rail. p.mu is held.
func (p *Peer) post() {
	for p.postNext() {
	}
	for _, r := range p.rails {
		r.flush()
	}
}

// postNext adds the next piece to a rail. Batches take turns. p.mu is held.
func (p *Peer) postNext() bool {
	for left := len(p.ready); left > 0; left-- {
		if p.turn >= len(p.ready) {
			p.turn = 0
		}
		b := p.ready[p.turn]
		opcode, region, some := b.next()
		if !some {
			p.unlist(p.turn)
			p.advance(b)
			continue
		}
		p.turn++
		if r := p.choose(opcode, region); r != nil {
			r.add(b.cut(p.engine.cfg.SliceSize))
			return true
		}
	}
	return false
}

// choose returns a rail that has room for a work request, or nil: one that is nearest to the region, which may be nil,
// and of these the one with the fewest outstanding bytes. p.mu is held.
func (p *Peer) choose(opcode verbs.Opcode, region *Region) (best *rail) {
	for _, r := range p.rails {
		if !r.hasRoom(opcode) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(r.from(region), best.from(region)), cmp.Compare(r.bytes, best.bytes)) < 0 {
			best = r
		}
	}
	return best
}
