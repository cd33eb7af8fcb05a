package rdmatest

import "time"

// settle is the end of waiting for an answer.
func (id *cmID) settle(s connState) {
	if id.waiting != nil {
		id.waiting.stop()
		id.waiting = nil
	}
	id.state = s
}

// The manager's times: of rdma_cm (CMA_CM_RESPONSE_TIMEOUT 20, CMA_IBOE_PACKET_LIFETIME 16), of a
// program that needs time (CMA_CM_MRA_SETTING 24). Those of iWARP drivers are in the table of kinds.
const (
	sendAgain   = 15                                // CMA_MAX_CM_RETRIES
	requestWait = (4096 + 2*256) * time.Millisecond // for an answer to a request to connect
	answerWait  = 4096 * time.Millisecond           // for one to anything else
	longWait    = (65536 + 512) * time.Millisecond  // of a peer that asked for time

	firstSYN   = time.Second // until TCP sends a SYN again
	longestRTO = 120 * time.Second
)

// exchange is a message that is sent again until it is answered.
type exchange struct {
	send    func()
	expired func()
	wait    time.Duration // for an answer
	next    time.Duration // for an answer to the last one
	tries   int
	timer   *time.Timer
}

// patience is how long the ID waits for an answer to a request.
func (id *cmID) patience() time.Duration {
	if id.datagram || id.child {
		return answerWait
	}
	return requestWait
}

// exchange sends a message until the ID settles.
func (id *cmID) exchange(wait time.Duration, send, expired func()) {
	x := &exchange{send: send, expired: expired, wait: wait}
	id.waiting = x
	id.try(x)
}

func (id *cmID) try(x *exchange) {
	if id.waiting != x {
		return
	}
	if x.tries > sendAgain {
		id.waiting = nil
		x.expired()
		return
	}
	x.tries++
	x.next, x.timer = x.wait, nil
	x.send()
	if id.waiting == x {
		try := x.tries
		x.timer = id.m.f.later(x.next, func() {
			if x.tries == try { // a timer that was set again may have fired before
				id.try(x)
			}
		})
	}
}

func (x *exchange) stop() {
	if x.timer != nil {
		x.timer.Stop()
	}
}

// postpone has the ID wait longer, for a peer that has its message and needs time.
func (id *cmID) postpone() {
	if x := id.waiting; x != nil {
		if x.next = longWait; x.timer != nil {
			x.timer.Reset(longWait)
		}
	}
}

// limit gives up an attempt over iWARP after a while.
func (id *cmID) limit(d time.Duration) {
	if id.waiting != nil {
		id.waiting.stop()
	}
	x := &exchange{}
	id.waiting = x
	x.timer = id.m.f.later(d, func() {
		if id.waiting == x {
			id.unreachable()
		}
	})
}

// carry has one message of the manager's arrive, unless the network loses it.
func (m *manager) carry(from, to *Device, arrive func()) {
	m.f.after(m.f.wire.latency, func() {
		if m.f.hasPath(from, to) && !m.f.loses() {
			arrive()
		}
	})
}

// stream has something arrive over TCP, which sends it again, after twice the time each time, as
// long as it is wanted.
func (m *manager) stream(from, to *Device, rto time.Duration, wanted func() bool, arrive func()) {
	switch f := m.f; {
	case !wanted():
	case f.isLinked(from, to) && !f.loses():
		arrive()
	default:
		f.later(rto, func() { m.stream(from, to, min(2*rto, longestRTO), wanted, arrive) })
	}
}
