package rdmacm

import (
	"context"
	"errors"
	"sync"
)

// greetings are the handshakes of a listener with peers that Accept lets in. Each
// has a goroutine of its own, so that a peer that never confirms holds up nobody.
type greetings struct {
	places chan struct{} // holds a token for each greeting that nobody has taken
	met    chan met      // has room for all of them
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex // guards what follows
	over bool       // no more begin
	all  sync.WaitGroup
}

// met is how a greeting came out.
type met struct {
	conn *Conn
	err  error
}

func newGreetings(most int) *greetings {
	g := &greetings{places: make(chan struct{}, most), met: make(chan met, most)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Accept waits for a peer to connect and returns the connection that the
// listener's Config describes. Errors as Next.
//
// While a call waits, connect requests are accepted beside each other, as many as
// Config.Backlog at a time; so Config.Prepare may be called for several at a time.
// Config.AcceptTimeout bounds each of these handshakes. ctx bounds only the call: a
// handshake that it leaves behind is for the next call.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	for {
		select {
		case <-l.done:
			return nil, l.endErr
		default:
		}
		select {
		case m := <-l.greetings.met:
			<-l.greetings.places
			return m.conn, m.err
		case l.greetings.places <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.done:
			continue
		}
		// There is a place for another one.
		select {
		case ev := <-l.requests:
			if !l.greetings.begin(func() { l.greet(ev) }) {
				l.refuse(ev.ID)
			}
			continue
		case m := <-l.greetings.met:
			<-l.greetings.places
			<-l.greetings.places
			return m.conn, m.err
		case <-ctx.Done():
		case <-l.done:
		}
		<-l.greetings.places
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

func (g *greetings) begin(greet func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		g.all.Go(greet)
	}
	return !g.over
}

func (g *greetings) end() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	g.cancel()
	g.all.Wait()
}

// greet accepts one peer.
func (l *Listener) greet(ev *Event) {
	ctx, cancel := context.WithTimeout(l.greetings.ctx, l.cfg.AcceptTimeout)
	defer cancel()
	var m met
	r, err := l.request(ev)
	if err == nil {
		m.conn, err = r.Accept(ctx, &l.cfg)
	}
	m.err = err
	l.greetings.met <- m
}

// dismiss ends the greetings and closes what they have brought.
func (l *Listener) dismiss() error {
	l.greetings.end()
	var errs []error
	for {
		select {
		case m := <-l.greetings.met:
			if m.err == nil {
				errs = append(errs, m.conn.Close())
			}
			continue
		default:
		}
		return errors.Join(errs...)
	}
}
