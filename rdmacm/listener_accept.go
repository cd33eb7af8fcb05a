package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Accept waits for a peer to connect and returns the connection that the
// listener's Config describes. Errors as Next.
//
// While a call waits, it answers connect requests side by side, as many as Config.Backlog
// at a time; so Config.Prepare may be called for several at a time. Config.AcceptTimeout
// bounds each of these handshakes. ctx bounds only the call: a handshake that it leaves
// behind is for the next call.
//
// A peer that does not confirm within Config.ConfirmTimeout is dropped, and Accept says
// nothing of it, as over TCP. No address has more than a share of the handshakes. While
// other peers wait for a place, the oldest handshake of the address that has most of them
// is dropped after a tenth of that time.
//
// A panic in Config.Prepare ends the handshake, and becomes one of Accept.
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
		if err := l.await(ctx, changed, next); err != nil {
			return nil, err
		}
	}
}

// await waits for a change of the backlog, or for a time that is not 0.
func (l *Listener) await(ctx context.Context, changed <-chan struct{}, next time.Duration) error {
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
		return ctx.Err()
	}
	return nil
}

// leastShare is how many handshakes an address may have at a time, however short the
// backlog is.
const leastShare = 8

// backlog has a listener's connect requests and the handshakes that Accept has begun. A
// RoCE request is one datagram, which may name any source: so a peer that stays silent
// keeps its place for a short time only, and an address gets a share of the places.
type backlog struct {
	most    int           // requests, and handshakes
	share   int           // of the handshakes that an address may have
	confirm time.Duration // how long a peer may take to confirm
	greet   func(ctx context.Context, r *Request, answered func()) (*Conn, error)

	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu         sync.Mutex // guards what follows
	changed    chan struct{}
	requests   []pendingRequest // oldest first
	handshakes []*handshake     // oldest first; until Accept returns them
	over       bool             // no more begin
}

// pendingRequest is a request that nobody has taken, or why there is none.
type pendingRequest struct {
	from netip.Addr
	r    *Request
	err  error
}

// handshake is what has come of a request that Accept has taken.
type handshake struct {
	from     netip.Addr
	cancel   context.CancelFunc
	answered time.Time // when the peer's confirmation began to be awaited
	evicted  bool
	finished bool
	conn     *Conn
	err      error
	panicked any
}

var errExited = errors.New("Config.Prepare called runtime.Goexit")

func newBacklog(cfg *Config, greet func(context.Context, *Request, func()) (*Conn, error)) *backlog {
	b := &backlog{most: cfg.Backlog, share: max(cfg.Backlog/4, leastShare), confirm: cfg.ConfirmTimeout,
		greet: greet, changed: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// change wakes all waiters. It is called with the lock held.
func (b *backlog) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// add queues a request. When there are too many it returns the one to refuse: the newest
// one of the address that has most.
func (b *backlog) add(p pendingRequest) (refused *Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, p)
	if len(b.requests) > b.most {
		waiting := make(map[netip.Addr]int)
		for _, q := range b.requests {
			waiting[q.from]++
		}
		worst := len(b.requests) - 1
		for i, q := range b.requests {
			if n, most := waiting[q.from], waiting[b.requests[worst].from]; n > most || n == most && q.from == b.requests[worst].from {
				worst = i
			}
		}
		refused = b.requests[worst].r
		b.requests = slices.Delete(b.requests, worst, worst+1)
	}
	b.change()
	return refused
}

// next takes the oldest request. If there is none it returns a channel that is closed
// upon the next change.
func (b *backlog) next() (p pendingRequest, ok bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.requests) == 0 {
		return p, false, b.changed
	}
	p = b.requests[0]
	b.requests = slices.Delete(b.requests, 0, 1)
	return p, true, nil
}

// advance returns a handshake that has finished, or begins those that there is room for.
// Then it returns a channel that is closed upon the next change, and, if more can begin
// without one, after what time.
func (b *backlog) advance() (h *handshake, changed <-chan struct{}, next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.handshakes, func(h *handshake) bool { return h.finished }); i >= 0 {
		h = b.handshakes[i]
		b.handshakes = slices.Delete(b.handshakes, i, i+1)
		b.change()
		return h, nil, 0
	}
	if b.over {
		return nil, b.changed, 0
	}
	now := time.Now()
	for i := 0; i < len(b.requests); {
		p := b.requests[i]
		wait := time.Duration(0)
		if p.err == nil {
			wait = b.makeRoom(p.from, now)
		}
		if wait == 0 {
			b.requests = slices.Delete(b.requests, i, i+1)
			if p.err != nil {
				return &handshake{err: p.err}, nil, 0
			}
			b.begin(p)
			continue
		}
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
		i++
	}
	return nil, b.changed, next
}

// makeRoom returns 0 when there is room for a handshake with a peer, for which it may have
// evicted another; the time until it may do so; or a negative number.
func (b *backlog) makeRoom(from netip.Addr, now time.Time) time.Duration {
	held := make(map[netip.Addr]int)
	for _, h := range b.handshakes {
		held[h.from]++
	}
	crowded := held[from] >= b.share
	if !crowded && len(b.handshakes) < b.most {
		return 0
	}
	var victim *handshake
	for _, h := range b.handshakes {
		switch {
		case h.finished, h.answered.IsZero(), crowded && h.from != from:
		case victim == nil, held[h.from] > held[victim.from],
			held[h.from] == held[victim.from] && h.answered.Before(victim.answered):
			victim = h
		}
	}
	if victim == nil {
		return -1
	}
	if wait := b.confirm/10 - now.Sub(victim.answered); wait > 0 {
		return wait
	}
	victim.evicted = true
	victim.cancel()
	b.remove(victim)
	return 0
}

func (b *backlog) remove(h *handshake) {
	b.handshakes = slices.DeleteFunc(b.handshakes, func(other *handshake) bool { return other == h })
}

func (b *backlog) begin(p pendingRequest) {
	ctx, cancel := context.WithCancel(b.ctx)
	h := &handshake{from: p.from, cancel: cancel}
	b.handshakes = append(b.handshakes, h)
	b.all.Go(func() { b.run(ctx, h, p.r) })
}

// run carries out a handshake. A peer that does not confirm leaves nothing behind.
func (b *backlog) run(ctx context.Context, h *handshake, r *Request) {
	defer h.cancel()
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
		timer = time.AfterFunc(b.confirm, h.cancel)
		b.change()
	})
}

func (b *backlog) finish(h *handshake, conn *Conn, err error, panicked any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	silent := err != nil && !h.answered.IsZero() && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
	switch {
	case h.evicted && conn != nil: // it confirmed at the last moment
		b.all.Go(func() { _ = conn.Close() })
	case h.evicted:
	case silent:
		b.remove(h)
	default:
		h.conn, h.err, h.panicked, h.finished = conn, err, panicked, true
	}
	b.change()
}

// end ends all and closes the connections that Accept has not returned. It returns the
// requests that are left.
func (b *backlog) end() (left []pendingRequest, err error) {
	b.mu.Lock()
	b.over = true
	left, b.requests = b.requests, nil
	b.mu.Unlock()
	b.cancel()
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
	return r.accept(ctx, &l.cfg, answered)
}
