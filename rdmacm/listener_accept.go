package rdmacm

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// Accept waits for a peer to connect and returns the connection, as the listener's Config describes
// it. It returns the same errors as [Listener.Next].
//
// While a call waits, it answers connect requests concurrently, as many as ListenConfig.Backlog
// allows. The others wait, and so do their dials. Config.Prepare may therefore be called for several
// at a time. ListenConfig.AcceptTimeout
// bounds each of these handshakes. ctx bounds only the call: a handshake that is under way when it
// ends continues, and the next call returns its connection.
//
// If a peer does not confirm within ListenConfig.ConfirmTimeout, the handshake is dropped without an
// error, as over TCP. No address has more than a share of the handshakes. While other peers wait
// for a place, the oldest handshake of the address with the most handshakes is dropped after a
// tenth of that time. A peer whose confirmation has arrived is never dropped.
//
// A panic in Config.Prepare ends the handshake, and Accept panics with the same value.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		select {
		case <-l.done:
			return nil, l.endErr
		default:
		}
		h, changed, next := l.backlog.advance()
		if h != nil {
			if h.panicked != nil {
				panic(h.panicked)
			}
			return h.conn, onePeer(h.err)
		}
		if err := l.await(ctx, "accept at", changed, next); err != nil {
			return nil, err
		}
	}
}

// await waits for a change of the backlog, but at most for next if that is not 0. Errors name the
// operation op.
func (l *Listener) await(ctx context.Context, op string, changed <-chan struct{}, next time.Duration) error {
	var timer <-chan time.Time
	if next > 0 {
		t := time.NewTimer(next)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-changed:
	case <-timer:
	case <-l.done:
	case <-ctx.Done():
		return &verbs.Error{Op: op, Object: l.addr.String(), Err: ctx.Err()}
	}
	return nil
}

// The limits of handshakes. Each has a queue pair and pins memory, unlike a request that waits.
const (
	// mostHandshakes is how many handshakes go on at a time, however long the backlog is.
	mostHandshakes = 128
	// leastShare is how many handshakes an address may have at a time, however short the
	// backlog is.
	leastShare = 8
)

// backlog holds a listener's connect requests and the handshakes that Accept has begun. A RoCE
// request is one datagram, whose source may be forged. Therefore a silent peer keeps its place only
// for a short time, and an address gets only a share of the places.
type backlog struct {
	most    int           // requests
	places  int           // how many handshakes there may be
	share   int           // of the places, for one address
	confirm time.Duration // how long a peer may take to confirm
	greet   func(ctx context.Context, r *Request, answered func()) (*Conn, error)
	settle  func(func()) // see hub.settle; nil stands for no events

	ctx    context.Context
	cancel context.CancelCauseFunc
	all    sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	changed    chan struct{}
	requests   []pendingRequest // oldest first
	handshakes []*handshake     // oldest first; until Accept returns them
	sources    map[netip.Addr]*source
	stats      ListenerStats
	settling   bool // settle has been called and its function has not
	over       bool // no more requests or handshakes begin
}

// source counts the requests and handshakes of an address.
type source struct {
	requests, handshakes int
	scanned              bool // advance has found that no handshake of the address may begin
}

// pendingRequest is a request that waits for Accept or Next, or the error of one that failed.
type pendingRequest struct {
	from   netip.Addr
	source *source // of from
	r      *Request
	err    error
}

// handshake is a request that Accept has taken, and its outcome.
type handshake struct {
	from     netip.Addr
	source   *source // of from
	r        *Request
	cancel   context.CancelCauseFunc
	answered time.Time // when the wait for the peer's confirmation began
	evicted  bool
	finished bool
	conn     *Conn
	err      error
	panicked any
}

var errExited = errors.New("Config.Prepare called runtime.Goexit")

func newBacklog(cfg *ListenConfig, greet func(context.Context, *Request, func()) (*Conn, error)) *backlog {
	places := min(cfg.Backlog, mostHandshakes)
	b := &backlog{most: cfg.Backlog, places: places, share: max(places/4, leastShare), confirm: cfg.ConfirmTimeout,
		greet: greet, changed: make(chan struct{}), sources: make(map[netip.Addr]*source)}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	return b
}

// change wakes all waiters. The caller holds the lock.
func (b *backlog) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// sourceOf returns the counts of an address. The caller increments one of them, and calls forget
// once it has decremented it.
func (b *backlog) sourceOf(from netip.Addr) *source {
	s := b.sources[from]
	if s == nil {
		s = new(source)
		b.sources[from] = s
	}
	return s
}

func (b *backlog) forget(from netip.Addr, s *source) {
	if s.requests+s.handshakes == 0 {
		delete(b.sources, from)
	}
}

// add queues a request. If there are too many, it returns the one to refuse: the newest one of the
// address with the most requests.
func (b *backlog) add(p pendingRequest) (refused *Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.source = b.sourceOf(p.from)
	p.source.requests++
	b.stats.Requests++
	b.requests = append(b.requests, p)
	if len(b.requests) > b.most {
		worst := 0
		for i, q := range b.requests {
			if q.source.requests >= b.requests[worst].source.requests {
				worst = i
			}
		}
		refused = b.take(worst).r
		b.stats.Busy++
	}
	b.change()
	return refused
}

// take removes a request.
func (b *backlog) take(i int) pendingRequest {
	p := b.requests[i]
	if i == 0 {
		b.requests[0] = pendingRequest{}
		b.requests = b.requests[1:]
	} else {
		b.requests = slices.Delete(b.requests, i, i+1)
	}
	p.source.requests--
	b.forget(p.from, p.source)
	return p
}

// next returns the oldest request and removes it. If there is none, it returns a channel that is
// closed upon the next change.
func (b *backlog) next() (p pendingRequest, ok bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) == 0 {
		return p, false, b.changed
	}
	b.stats.Taken++
	return b.take(0), true, nil
}

// advance returns a finished handshake, if the backlog has one. Otherwise it begins as many
// handshakes as the limits allow, and returns a channel that is closed upon the next change. If
// another handshake may begin later without a change, next is the time until then.
func (b *backlog) advance() (h *handshake, changed <-chan struct{}, next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.handshakes, func(h *handshake) bool { return h.finished }); i >= 0 {
		h = b.handshakes[i]
		b.remove(h)
		if h.conn != nil {
			b.stats.Accepted++
		}
		b.change()
		return h, nil, 0
	}
	failed, next := b.fill(false)
	if failed >= 0 {
		return &handshake{err: b.take(failed).err}, nil, 0
	}
	return nil, b.changed, next
}

// fill begins as many handshakes as the limits allow. settled means that no event waits. If another handshake may begin
// later without a change, next is the time until then. failed is the index of the first request that failed, or -1.
func (b *backlog) fill(settled bool) (failed int, next time.Duration) {
	if b.over {
		return -1, 0
	}
	var scanned []*source
	defer func() {
		for _, s := range scanned {
			s.scanned = false
		}
	}()
	failed = -1
	now := time.Now()
	full := time.Duration(0) // what makeRoom has returned for all addresses below their share, or 0
	for i := 0; i < len(b.requests); {
		p := b.requests[i]
		if p.err != nil && failed < 0 {
			failed = i
		}
		if p.err != nil || p.source.scanned {
			i++
			continue
		}
		wait, crowded := full, p.source.handshakes >= b.share
		if crowded || full == 0 {
			wait = b.makeRoom(p.from, crowded, settled, now)
		}
		if wait == 0 {
			full = 0
			b.begin(b.take(i))
			continue
		}
		if !crowded {
			full = wait
		}
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
		p.source.scanned = true
		scanned = append(scanned, p.source)
		i++
	}
	return failed, next
}

// makeRoom returns 0 if there is room for a handshake with a peer, possibly because it evicted
// another one. If it may evict one later, it returns the time until then. Otherwise it returns a
// negative number. crowded means that the peer's address has its share of the places. The result is the
// same for all others.
func (b *backlog) makeRoom(from netip.Addr, crowded, settled bool, now time.Time) time.Duration {
	if !crowded && len(b.handshakes) < b.places {
		return 0
	}
	var victim *handshake
	for _, h := range b.handshakes {
		switch {
		case h.finished, h.answered.IsZero(), h.confirmed(), crowded && h.from != from:
		case victim == nil, h.source.handshakes > victim.source.handshakes,
			h.source.handshakes == victim.source.handshakes && h.answered.Before(victim.answered):
			victim = h
		}
	}
	if victim == nil {
		return -1
	}
	if wait := victim.answered.Add(b.confirm / 10).Sub(now); wait > 0 {
		return wait
	}
	if !settled && b.settle != nil {
		b.fillSettled()
		return -1
	}
	b.stats.Evicted++
	victim.evicted = true
	victim.cancel(errEvicted)
	b.remove(victim)
	return 0
}

// fillSettled calls fill in the background, once the events that wait have been delivered. A peer's confirmation may be
// one of them, and such a peer must not be evicted. Later confirmations must not come between, so fill is called at
// once.
func (b *backlog) fillSettled() {
	if b.settling {
		return
	}
	b.settling = true
	b.settle(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.settling = false
		b.fill(true)
		b.change()
	})
}

// confirmed reports whether the peer's confirmation has been delivered. The caller holds the backlog's
// lock, under which answered was set, after r.conn.
func (h *handshake) confirmed() bool { return h.r.conn != nil && h.r.conn.confirmed.Load() }

func (b *backlog) remove(h *handshake) {
	b.handshakes = slices.DeleteFunc(b.handshakes, func(other *handshake) bool { return other == h })
	h.source.handshakes--
	b.forget(h.from, h.source)
}

// insert adds a handshake behind the others.
func (b *backlog) insert(h *handshake) {
	h.source = b.sourceOf(h.from)
	h.source.handshakes++
	b.handshakes = append(b.handshakes, h)
}

func (b *backlog) begin(p pendingRequest) {
	ctx, cancel := context.WithCancelCause(b.ctx)
	h := &handshake{from: p.from, r: p.r, cancel: cancel}
	b.insert(h)
	b.all.Go(func() { b.run(ctx, h, p.r) })
}

// run carries out a handshake. If the peer does not confirm, run frees everything.
func (b *backlog) run(ctx context.Context, h *handshake, r *Request) {
	defer h.cancel(nil)
	var timer *time.Timer
	var conn *Conn
	err := errExited
	defer func() {
		panicked := recover()
		if timer != nil {
			timer.Stop()
		}
		b.finish(h, conn, err, panicked)
	}()
	conn, err = b.greet(ctx, r, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		h.answered = time.Now()
		timer = time.AfterFunc(b.confirm, func() { b.expire(h) })
		b.change()
	})
}

// expire ends a handshake whose peer has not confirmed in time. If the confirmation has arrived, it
// does not.
func (b *backlog) expire(h *handshake) {
	if b.settle == nil {
		h.cancel(nil)
		return
	}
	b.settle(func() {
		if !h.confirmed() {
			h.cancel(nil)
		}
	})
}

func (b *backlog) finish(h *handshake, conn *Conn, err error, panicked any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	silent := err != nil && !h.answered.IsZero() && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
	switch {
	case h.evicted && conn != nil && len(b.handshakes) < 2*b.places: // the peer confirmed at the last moment
		b.stats.Evicted--
		b.insert(h)
		h.conn, h.finished = conn, true
	case h.evicted && conn != nil:
		b.all.Go(func() { _ = conn.Close() })
	case h.evicted:
	case silent:
		if !b.over {
			b.stats.Expired++
		}
		b.remove(h)
	default:
		if err != nil {
			b.stats.Failed++
		}
		h.conn, h.err, h.panicked, h.finished = conn, err, panicked, true
	}
	b.change()
}

// end cancels all handshakes and closes the connections that Accept has not returned. It returns
// the remaining requests.
func (b *backlog) end() (left []pendingRequest, err error) {
	b.mu.Lock()
	b.over = true
	left, b.requests = b.requests, nil
	b.mu.Unlock()
	b.cancel(net.ErrClosed)
	b.all.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, h := range b.handshakes {
		if h.conn != nil {
			errs = append(errs, h.conn.Close())
		}
	}
	b.handshakes = nil
	return left, errors.Join(errs...)
}

// greet accepts one peer.
func (l *Listener) greet(ctx context.Context, r *Request, answered func()) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.AcceptTimeout)
	defer cancel()
	return r.accept(ctx, &l.cfg.Config, answered)
}
