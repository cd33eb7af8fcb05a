package umad

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// receiveQueue is the number of requests that an agent queues for Receive.
const receiveQueue = 256

// agent is the common part of the agents of the kernel and of ibsim.
type agent struct {
	device  string // for errors, as is port
	port    uint8
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

func (a *agent) init(device string, port uint8, c mad.AgentConfig, most int) {
	a.device, a.port = device, port
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
		return nil, req.Failed(a.device, a.port, err)
	}
	if len(req.Data) < 24 {
		return nil, req.Failed(a.device, a.port, errNoHeader)
	}
	tid, reply, err := a.begin()
	if err != nil {
		return nil, req.Failed(a.device, a.port, err)
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
			return nil, req.Failed(a.device, a.port, a.cause(err))
		}
		select {
		case r := <-reply:
			if r.err != nil {
				return nil, req.Failed(a.device, a.port, r.err)
			}
			return r.m, nil
		case <-ctx.Done():
			return nil, req.Failed(a.device, a.port, ctx.Err())
		case <-a.ended:
			return nil, req.Failed(a.device, a.port, a.cause(net.ErrClosed))
		case <-timer.C:
			timer.Reset(wait)
		}
	}
	return nil, req.Failed(a.device, a.port, mad.ErrTimeout)
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
		return m.Failed(a.device, a.port, err)
	}
	if len(m.Data) < 24 {
		return m.Failed(a.device, a.port, errNoHeader)
	}
	select {
	case <-a.ended:
		return m.Failed(a.device, a.port, a.cause(net.ErrClosed))
	default:
	}
	if err := a.carrier.send(m, 0, mad.Retry{}); err != nil {
		return m.Failed(a.device, a.port, a.cause(err))
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
		return nil, a.failed("receive at", ctx.Err())
	case <-a.ended:
		return nil, a.failed("receive at", a.cause(net.ErrClosed))
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
		return a.failed("close", net.ErrClosed)
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

var errNoHeader = errors.New("it has no header")

// failed returns the error of an operation on the agent.
func (a *agent) failed(op string, err error) error {
	return &verbs.Error{Op: op, Object: fmt.Sprintf("%v agent of port %d", a.config.Class, a.port), Device: a.device, Err: err}
}
