package umad

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/goverbs/goverbs/mad"
)

// receiveQueue is the number of requests that an agent queues for Receive.
const receiveQueue = 256

// agent is the common part of the agents of the kernel and of ibsim.
type agent struct {
	name    string // port and class, for errors
	config  mad.AgentConfig
	carrier carrier
	most    int // bytes that may wait in receive
	receive chan *mad.Message
	ended   chan struct{}

	mu      sync.Mutex
	queued  int // bytes that wait in receive
	tid     uint32
	pending map[uint32]chan answer
	endErr  error
}

// carrier is the part of an agent that depends on the kind of port.
type carrier interface {
	// send sends a MAD. If tid isn't 0, it is the transaction ID. retry is for carriers that repeat
	// requests themselves; see retries.
	send(m *mad.Message, tid uint32, retry mad.Retry) error
	// retries reports whether the carrier itself repeats requests and reports timeouts.
	retries() bool
	// unregister removes the agent from the kernel or the simulator.
	unregister() error
}

type answer struct {
	m   *mad.Message
	err error
}

func (a *agent) init(port string, c mad.AgentConfig, most int) {
	a.name = fmt.Sprintf("%s, %v", port, c.Class)
	a.config = c
	a.most = most
	a.receive = make(chan *mad.Message, receiveQueue)
	a.ended = make(chan struct{})
	a.pending = make(map[uint32]chan answer)
	a.tid = rand.Uint32()
}

func (a *agent) Do(ctx context.Context, req *mad.Message, retry mad.Retry) (*mad.Message, error) {
	if retry.Timeout <= 0 {
		retry.Timeout = mad.DefaultTimeout
	}
	if retry.Tries <= 0 {
		retry.Tries = mad.DefaultTries
	}
	if err := ctx.Err(); err != nil {
		return nil, a.errorf(req, err)
	}
	if len(req.Data) < 24 {
		return nil, fmt.Errorf("%s: a MAD of %d bytes has no header", a.name, len(req.Data))
	}
	tid, reply, err := a.begin()
	if err != nil {
		return nil, a.errorf(req, err)
	}
	defer a.forget(tid)

	sends, wait := retry.Tries, retry.Timeout
	if a.carrier.retries() {
		// The kernel reports timeouts. This one is for a removed device, which never does.
		sends, wait = 1, 2*time.Duration(retry.Tries)*retry.Timeout+time.Second
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for ; sends > 0; sends-- {
		if err := a.carrier.send(req, tid, retry); err != nil {
			return nil, a.errorf(req, a.cause(err))
		}
		select {
		case r := <-reply:
			if r.err != nil {
				return nil, a.errorf(req, r.err)
			}
			return r.m, nil
		case <-ctx.Done():
			return nil, a.errorf(req, ctx.Err())
		case <-a.ended:
			return nil, a.errorf(req, a.cause(net.ErrClosed))
		case <-timer.C:
			timer.Reset(wait)
		}
	}
	return nil, a.errorf(req, mad.ErrTimeout)
}

func (a *agent) begin() (uint32, chan answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		return 0, nil, a.endErr
	}
	for {
		a.tid++
		if _, used := a.pending[a.tid]; a.tid != 0 && !used {
			break
		}
	}
	reply := make(chan answer, 1)
	a.pending[a.tid] = reply
	return a.tid, reply, nil
}

func (a *agent) forget(tid uint32) {
	a.mu.Lock()
	delete(a.pending, tid)
	a.mu.Unlock()
}

// deliver passes a MAD from the port's reader to a call of Do or to the queue of Receive. It drops a
// response that no call waits for, and a request that the queue has no room for.
func (a *agent) deliver(m *mad.Message) {
	if !m.Data.IsResponse() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.queued+len(m.Data) > a.most {
			return
		}
		select {
		case a.receive <- m:
			a.queued += len(m.Data)
		default:
		}
		return
	}
	a.finish(uint32(m.Data.TID()), answer{m: m})
}

// finish ends the call of Do with a transaction ID.
func (a *agent) finish(tid uint32, r answer) {
	a.mu.Lock()
	reply, ok := a.pending[tid]
	delete(a.pending, tid)
	a.mu.Unlock()
	if ok {
		reply <- r
	}
}

func (a *agent) Send(ctx context.Context, m *mad.Message) error {
	if err := ctx.Err(); err != nil {
		return a.errorf(m, err)
	}
	if len(m.Data) < 24 {
		return fmt.Errorf("%s: a MAD of %d bytes has no header", a.name, len(m.Data))
	}
	select {
	case <-a.ended:
		return a.errorf(m, a.cause(net.ErrClosed))
	default:
	}
	if err := a.carrier.send(m, 0, mad.Retry{}); err != nil {
		return a.errorf(m, a.cause(err))
	}
	return nil
}

func (a *agent) Receive(ctx context.Context) (*mad.Message, error) {
	select {
	case m := <-a.receive:
		return a.took(m), nil
	default:
	}
	select {
	case m := <-a.receive:
		return a.took(m), nil
	case <-ctx.Done():
		return nil, &opError{a.name + ": receive", ctx.Err()}
	case <-a.ended:
		return nil, &opError{a.name + ": receive", a.cause(net.ErrClosed)}
	}
}

// took makes room in the queue for other requests than m, which has been taken from it.
func (a *agent) took(m *mad.Message) *mad.Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queued -= len(m.Data)
	return m
}

func (a *agent) Close() error {
	if !a.end(net.ErrClosed) {
		return fmt.Errorf("%s: %w", a.name, net.ErrClosed)
	}
	return a.carrier.unregister()
}

// end ends the agent and all its calls with an error. It reports whether the agent was open.
func (a *agent) end(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		return false
	}
	a.pending = nil
	a.endErr = err
	close(a.ended)
	return true
}

// cause returns the error that ended the agent, or err if the agent is open.
func (a *agent) cause(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.endErr != nil {
		return a.endErr
	}
	return err
}

func (a *agent) errorf(m *mad.Message, err error) error {
	op := ""
	if len(m.Data) >= 24 {
		op = fmt.Sprintf("%v of %s", m.Data.Method(), mad.AttrName(m.Data.Class(), m.Data.AttrID()))
	}
	switch {
	case m.Addr.GRH != nil:
		op += fmt.Sprintf(" to GID %v", m.Addr.GRH.GID)
	case m.Addr.LID != mad.PermissiveLID:
		op += fmt.Sprintf(" to LID %d", m.Addr.LID)
	}
	return &opError{a.name + ": " + op, err}
}

// opError is the error of an operation of a port or an agent.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// Timeout reports whether the request got no response or the context's deadline passed.
func (e *opError) Timeout() bool {
	return errors.Is(e.err, mad.ErrTimeout) || errors.Is(e.err, context.DeadlineExceeded)
}
