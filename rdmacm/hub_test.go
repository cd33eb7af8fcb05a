package rdmacm

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/verbs"
)

// slowQP is a queue pair whose device takes its time to go to a state.
type slowQP struct {
	fakeQP
	once        sync.Once
	state       verbs.QPState
	begun, goOn chan struct{}
}

func newSlowQP(state verbs.QPState) *slowQP {
	return &slowQP{state: state, begun: make(chan struct{}), goOn: make(chan struct{})}
}

func (q *slowQP) Modify(a *verbs.QPAttr, m verbs.QPAttrMask) error {
	if a.State == q.state {
		q.once.Do(func() {
			close(q.begun)
			<-q.goOn
		})
	}
	return q.fakeQP.Modify(a, m)
}

// fakeHub is a hub of a new fake kernel.
func fakeHub(t *testing.T) (*fakeKernel, *hub) {
	t.Helper()
	k := newFake()
	useFake(t, k)
	h, err := newHub(kernel.Owner(local4))
	if err != nil {
		t.Fatal(err)
	}
	return k, h
}

// connOnHub is a Conn with an ID on h and a queue pair.
func connOnHub(t *testing.T, h *hub, qp queuePair) *Conn {
	t.Helper()
	c := newConn(h)
	id, err := h.newID(c, verbs.PortSpaceTCP)
	if err != nil {
		t.Fatal(err)
	}
	c.use(id)
	if err := id.attach(qp, readLimits{16, 16}); err != nil {
		t.Fatal(err)
	}
	return c
}

// A queue pair that is slow to move holds up its own connection only, whose events
// keep their order.
func TestSlowQPStallsNoOther(t *testing.T) {
	for name, test := range map[string]struct {
		first EventType
		state verbs.QPState
	}{
		"connecting": {EventConnectResponse, verbs.QPStateRTR},
		"rejected":   {EventRejected, verbs.QPStateErr},
		"ending":     {EventDisconnected, verbs.QPStateErr},
	} {
		t.Run(name, func(t *testing.T) {
			k, h := fakeHub(t)
			qp := newSlowQP(test.state)
			slow, other := connOnHub(t, h, qp), connOnHub(t, h, new(fakeQP))
			k.report(slow.id.handle, test.first, nil)
			<-qp.begun
			if err := slow.Err(); test.first == EventDisconnected && err != ErrDisconnected {
				t.Error("work requests are flushed, and Err is", err)
			}
			k.report(slow.id.handle, EventConnectError, nil)

			k.report(other.id.handle, EventConnectResponse, nil)
			if _, err := other.await(t.Context(), EventEstablished); err != nil {
				t.Error(err)
			}
			k.report(other.id.handle, EventDisconnected, nil)
			<-other.Done()

			select {
			case ev := <-slow.setup:
				t.Error("overtaken by", ev.Type)
			default:
			}
			close(qp.goOn)
			want := []EventType{test.first, EventConnectError}
			switch test.first {
			case EventConnectResponse:
				want[0] = EventEstablished
			case EventDisconnected: // which is no step of connection set-up
				want = want[1:]
			}
			for _, typ := range want {
				if ev := <-slow.setup; ev.Type != typ {
					t.Errorf("%v came, want %v", ev.Type, typ)
				}
			}
			if err := errors.Join(slow.Close(), other.Close(), h.release()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The cause is known before the queue pair is flushed for want of events.
func TestHubFailsNotesCause(t *testing.T) {
	k, h := fakeHub(t)
	qp := newSlowQP(verbs.QPStateErr)
	c := connOnHub(t, h, qp)
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, syscall.EACCES)
	k.events <- abi.RdmaUcmEventResp{} // to have the hub ask again
	<-qp.begun
	if err := c.Err(); !errors.Is(err, syscall.EACCES) {
		t.Error("work requests are flushed, and Err is", err)
	}
	close(qp.goOn)
	<-c.Done()
	if err := errors.Join(c.Close(), h.release()); err != nil {
		t.Error(err)
	}
}

// The hub does not end before the events that it has delivered are processed.
func TestHubWaitsForTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, h := fakeHub(t)
		qp := newSlowQP(verbs.QPStateErr)
		c := connOnHub(t, h, qp)
		k.report(c.id.handle, EventDisconnected, nil)
		<-qp.begun
		released := make(chan error, 1)
		go func() { released <- h.release() }()
		synctest.Wait()
		if len(released) != 0 {
			t.Error("released while an event was being delivered")
		}
		close(qp.goOn)
		if err := errors.Join(<-released, c.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestSharedHub checks that those who dial have one channel, which goes with the last of them; later
// connections get another.
func TestSharedHub(t *testing.T) {
	w := newDatagramWorld(t)
	for range 2 {
		first, second := w.openUD(), w.openUD()
		if len(w.cms) != 1 {
			t.Errorf("%d channels for two Conns", len(w.cms))
		}
		closeConn(t, first)
		select {
		case <-w.cms[0].closed:
			t.Error("the channel was closed under a Conn")
		default:
		}
		closeConn(t, second)
		w.empty()
	}
}

// TestSharedHubFails checks that when no more events come, all who share the hub hear of it, and the
// next one has a hub that works.
func TestSharedHubFails(t *testing.T) {
	w := newDatagramWorld(t)
	broken := []*Conn{w.openUD(), w.openUD()}
	k := w.cms[0]
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, syscall.EACCES)
	k.events <- abi.RdmaUcmEventResp{} // about nobody: to have the hub ask again
	for _, c := range broken {
		<-c.Done()
		if !errors.Is(c.Err(), syscall.EACCES) {
			t.Error(c.Err())
		}
	}
	k.fail(abi.RDMA_USER_CM_CMD_GET_EVENT, 0)
	next := w.openUD()
	if len(w.cms) != 2 || next.Err() != nil {
		t.Errorf("%d channels, %v", len(w.cms), next.Err())
	}
	for _, c := range append(broken, next) {
		closeConn(t, c)
	}
	w.empty()
}

// TestHubFailsBeforeSink checks that an ID that was being made when the hub failed has the cause.
func TestHubFailsBeforeSink(t *testing.T) {
	useFake(t, newFake())
	h, err := newHub(kernel.Owner(local4))
	if err != nil {
		t.Fatal(err)
	}
	h.fail(syscall.EIO)
	c := newConn(h)
	if c.id, err = h.newID(c, verbs.PortSpaceTCP); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(c.Err(), syscall.EIO) {
		t.Error(c.Err())
	}
	if err := errors.Join(c.id.Close(), h.release()); err != nil {
		t.Error(err)
	}
}
