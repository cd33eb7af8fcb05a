package oob

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// TestModel runs two ends of the protocol in every order in which their streams can deliver the messages, for one end
// that dials and for two. What has to hold after each step:
//
//   - an end that may send has a peer whose queue pair is connected to it;
//   - an end is connected to the peer's queue pair, or has the address of SRD's, and both have the same idea of the attempt;
//   - nobody fails, and in the end both are up.
func TestModel(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeSRD} {
		for _, both := range []bool{false, true} {
			for _, order := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%v/%v", kind, both, order), func(t *testing.T) {
					n := explore(t, newModel(kind, both, order))
					if n == 0 {
						t.Error("no end")
					}
				})
			}
		}
	}
}

// model is two machines and the messages between them.
type model struct {
	ends      [2]machine
	connected [2]bool
	wire      [2][]frame // to each end
	trace     string
}

func newModel(kind verbs.QPType, both, swapped bool) *model {
	var m model
	a, b := sample(kind), sample(kind)
	a.nonce, b.nonce = 1, 2
	a.qkey >>= 1
	if swapped {
		a.nonce, b.nonce = 2, 1
	}
	m.send(0, m.ends[0].offer(a))
	m.ends[1].local = b
	if both {
		m.send(1, m.ends[1].offer(b))
	}
	return &m
}

func (m *model) send(from int, f *frame) {
	parsed, err := parse(f.bytes())
	if err != nil {
		panic(err)
	}
	m.wire[1-from] = append(m.wire[1-from], *parsed)
}

// explore delivers the messages in every order, and returns the number of ends.
func explore(t *testing.T, m *model) (ends int) {
	for to := range m.ends {
		if len(m.wire[to]) == 0 {
			continue
		}
		next := *m
		next.wire[to] = m.wire[to][1:]
		next.wire[1-to] = append([]frame(nil), m.wire[1-to]...)
		next.step(t, to, m.wire[to][0])
		ends += explore(t, &next)
	}
	if ends > 0 {
		return ends
	}
	if m.ends[0].state != up || m.ends[1].state != up || !m.connected[0] || !m.connected[1] {
		t.Errorf("%s: %+v", m.trace, m.ends)
	}
	return 1
}

func (m *model) step(t *testing.T, to int, f frame) {
	m.trace += fmt.Sprintf(" %v to %d;", f.kind, to)
	e := &m.ends[to]
	a, err := e.receive(&f)
	if err != nil {
		t.Fatal(m.trace, err)
	}
	switch a {
	case actAnswer:
		m.connected[to] = true
		m.send(to, e.answer(e.local))
	case actConnect:
		m.connected[to] = true
		m.send(to, e.ready())
	}
	for i := range m.ends {
		if m.ends[i].state == up && !m.connected[1-i] {
			t.Errorf("%s: end %d may send, but the other is not connected", m.trace, i)
		}
		if other := m.ends[1-i].local; m.connected[i] && (m.ends[i].peer.nonce != other.nonce || m.ends[i].peer.QPN != other.QPN || m.ends[i].peer.qkey != other.qkey) {
			t.Errorf("%s: end %d is connected to another attempt", m.trace, i)
		}
	}
}

// TestStrictOrder sends each message to an end in each state. Only those that are due are accepted.
func TestStrictOrder(t *testing.T) {
	offer := frame{kind: kindOffer, endpoint: sample(verbs.QPTypeRC)}
	offer.endpoint.nonce = 2
	messages := map[string]frame{"offer": offer}
	answer := offer
	answer.kind, answer.endpoint.answers = kindAnswer, 1
	messages["answer"] = answer
	answer.endpoint.answers = 9
	messages["stale answer"] = answer
	messages["ready"] = frame{kind: kindReady, endpoint: Endpoint{answers: 1}}
	messages["stale ready"] = frame{kind: kindReady, endpoint: Endpoint{answers: 9}}
	messages["refusal"] = frame{kind: kindRefuse}
	messages["bye"] = frame{kind: kindBye}
	own := offer
	own.endpoint.nonce = 1
	messages["own offer"] = own

	states := map[string]state{"await offer": awaitOffer, "await answer": awaitAnswer, "await ready": awaitReady, "up": up, "over": over}
	good := map[string]action{
		"await offer/offer": actAnswer, "await offer/own offer": actAnswer, // of another
		"await answer/answer": actConnect, "await answer/offer": actNothing, // this end remains the one that dialled
		"await ready/ready": actUp,
		"up/bye":            actEnd,
	}
	other := map[string]error{
		"await answer/stale answer": ErrStale, "await ready/stale ready": ErrStale,
		"await offer/refusal": ErrRefused, "await answer/refusal": ErrRefused, "await ready/refusal": ErrRefused,
	}
	for in, s := range states {
		for name, f := range messages {
			m := machine{state: s, local: sample(verbs.QPTypeRC)}
			m.local.nonce = 1
			a, err := m.receive(&f)
			want, ok := good[in+"/"+name]
			wantErr := other[in+"/"+name]
			if !ok && wantErr == nil {
				wantErr = ErrProtocol
			}
			if !errors.Is(err, wantErr) || ok != (err == nil) || a != want {
				t.Errorf("%s, %s: %d, %v", in, name, a, err)
			}
			if err != nil && m.state != over {
				t.Errorf("%s, %s: state %d after %v", in, name, m.state, err)
			}
		}
	}
	m := machine{state: awaitAnswer, local: sample(verbs.QPTypeRC)}
	m.local.nonce = 1
	if _, err := m.receive(&offer); err != nil {
		t.Fatal(err)
	}
	if _, err := m.receive(&offer); !errors.Is(err, ErrProtocol) {
		t.Error("dialled twice:", err)
	}
}
