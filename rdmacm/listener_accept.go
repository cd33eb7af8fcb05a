package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Accept waits for a peer to connect and returns the connection, as the listener's Config describes
// it. It returns the same errors as [Listener.Next].
//
// While a call waits, it answers connect requests concurrently, as many as ListenConfig.Backlog at a
// time. Config.Prepare may therefore be called for several at a time. ListenConfig.AcceptTimeout
// bounds each of these handshakes. ctx bounds only the call: a handshake that is under way when it
// ends continues, and the next call returns its connection.
//
// If a peer does not confirm within ListenConfig.ConfirmTimeout, the handshake is dropped without an
// error, as over TCP. No address has more than a share of the handshakes. While other peers wait
// for a place, the oldest handshake of the address with the most handshakes is dropped after a
// tenth of that time.
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
		return &OpError{Op: op, Object: l.addr.String(), Err: ctx.Err()}
	}
	return nil
}

// leastShare is how many handshakes an address may have at a time, however short the
// backlog is.
const leastShare = 8

// backlog holds a listener's connect requests and the handshakes that Accept has begun. A RoCE
// request is one datagram, whose source may be forged. Therefore a silent peer keeps its place only
// for a short time, and an address gets only a share of the places.
type backlog struct {
	most    int           // requests, and handshakes
	share   int           // of the handshakes that an address may have
	confirm time.Duration // how long a peer may take to confirm
	greet   func(ctx context.Context, r *Request, answered func()) (*Conn, error)

	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	changed    chan struct{}
	requests   []pendingRequest // oldest first
	handshakes []*handshake     // oldest first; until Accept returns them
	over       bool             // no more requests or handshakes begin
}

// pendingRequest is a request that waits for Accept or Next, or the error of one that failed.
type pendingRequest struct {
	from netip.Addr
	r    *Request
	err  error
}

// handshake is a request that Accept has taken, and its outcome.
type handshake struct {
	from     netip.Addr
	cancel   context.CancelFunc
	answered time.Time // when the wait for the peer's confirmation began
	evicted  bool
	finished bool
	conn     *Conn
	err      error
	panicked any
}

var errExited = errors.New("Config.Prepare called runtime.Goexit")

func newBacklog(cfg *ListenConfig, greet func(context.Context, *Request, func()) (*Conn, error)) *backlog {
	b := &backlog{most: cfg.Backlog, share: max(cfg.Backlog/4, leastShare), confirm: cfg.ConfirmTimeout,
		greet: greet, changed: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// change wakes all waiters. The caller holds the lock.
func (b *backlog) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// add queues a request. If there are too many, it returns the one to refuse: the newest one of the
// address with the most requests.
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

// next returns the oldest request and removes it. If there is none, it returns a channel that is
// closed upon the next change.
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

// advance returns a finished handshake, if the backlog has one. Otherwise it begins as many
// handshakes as the limits allow, and returns a channel that is closed upon the next change. If
// another handshake may begin later without a change, next is the time until then.
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

// makeRoom returns 0 if there is room for a handshake with a peer, possibly because it evicted
// another one. If it may evict one later, it returns the time until then. Otherwise it returns a
// negative number.
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

// run carries out a handshake. If the peer does not confirm, run frees everything.
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
	case h.evicted && conn != nil: // the peer confirmed at the last moment
		b.all.Go(func() { _ = conn.Close() })
	case h.evicted:
	case silent:
		b.remove(h)
	default:
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
	return r.accept(ctx, &l.cfg.Config, answered)
}
