package oob

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// machine is the protocol of one end, without its objects. It does not wait and does not send: receive handles
// a message of the peer, and returns what the end has to do.
type machine struct {
	state state
	met   bool     // the peer has dialled, too
	local Endpoint // since the offer or the answer was made
	peer  Endpoint // since actAnswer or actConnect
}

type state uint8

const (
	awaitOffer  state = iota // the accepting side
	awaitAnswer              // the side that dialled
	awaitReady               // the accepting side, which has answered
	up
	over
)

// action is what an end has to do after a message.
type action uint8

const (
	actNothing action = iota
	actAnswer         // connect to the peer, call answer and send the answer
	actConnect        // connect to the peer, and send a ready
	actUp             // the connection is up
	actEnd            // the peer has said good-bye
)

// offer makes this end the side that dialled. It returns the message to send.
func (m *machine) offer(local Endpoint) *frame {
	m.local, m.state = local, awaitAnswer
	return &frame{kind: kindOffer, endpoint: m.local}
}

// answer returns the message to send after actAnswer. If this end has made an offer itself, local is the same.
func (m *machine) answer(local Endpoint) *frame {
	m.local, m.state = local, awaitReady
	m.local.answers = m.peer.nonce
	return &frame{kind: kindAnswer, endpoint: m.local}
}

// ready returns the message to send after actConnect, which is the last one of the set-up.
func (m *machine) ready() *frame {
	m.state = up
	return &frame{kind: kindReady, endpoint: Endpoint{answers: m.peer.nonce}}
}

// receive handles a message of the peer. After an error the connection is over.
func (m *machine) receive(f *frame) (action, error) {
	a, err := m.step(f)
	if err != nil || a == actEnd {
		m.state = over
	}
	return a, err
}

func (m *machine) step(f *frame) (action, error) {
	switch {
	case f.kind == kindRefuse && m.state < up:
		return actNothing, fmt.Errorf("%w: %q", ErrRefused, f.reason)
	case f.kind == kindOffer && m.state == awaitOffer:
		m.peer = f.endpoint
		return actAnswer, nil
	case f.kind == kindOffer && m.state == awaitAnswer:
		return m.meet(&f.endpoint)
	case f.kind == kindAnswer && m.state == awaitAnswer:
		if f.endpoint.answers != m.local.nonce {
			return actNothing, ErrStale
		}
		m.peer = f.endpoint
		return actConnect, m.local.fits(&m.peer)
	case f.kind == kindReady && m.state == awaitReady:
		if f.endpoint.answers != m.local.nonce {
			return actNothing, ErrStale
		}
		m.state = up
		return actUp, nil
	case f.kind == kindBye && m.state == up:
		return actEnd, nil
	}
	return actNothing, violation("%v, but it should have sent %s", f.kind, m.due())
}

// meet handles an offer if both ends have dialled. The end with the lower instance, or with the lower nonce in one
// process, remains the side that dialled, and the other end answers.
func (m *machine) meet(peer *Endpoint) (action, error) {
	if m.met {
		return actNothing, violation("two offers")
	}
	m.met = true
	switch order := bytes.Compare(m.local.rank(), peer.rank()); {
	case order == 0:
		return actNothing, violation("its offer is this end's own")
	case order < 0:
		return actNothing, nil
	}
	m.peer = *peer
	return actAnswer, m.local.fits(peer)
}

func (e *Endpoint) rank() []byte { return binary.BigEndian.AppendUint64(e.Instance[:], e.nonce) }

// due returns what the peer should send.
func (m *machine) due() string {
	switch m.state {
	case awaitOffer:
		return "an offer"
	case awaitAnswer:
		return "an answer"
	case awaitReady:
		return "a ready"
	case up:
		return "nothing but a bye"
	}
	return "nothing"
}
