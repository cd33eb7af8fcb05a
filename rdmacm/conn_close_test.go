package rdmacm

import (
	"errors"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCloseAcknowledges: Close disconnects, and frees the queue pair, without the error
// state, in which rxe no longer acknowledges what it has taken.
func TestCloseAcknowledges(t *testing.T) {
	w := newWorld(t, aRXE)
	var states []uint8
	w.before = func(_ *fakeKernel, cmd uint32, _ []byte) {
		if cmd == abi.RDMA_USER_CM_CMD_DISCONNECT || cmd == abi.RDMA_USER_CM_CMD_DESTROY_ID {
			for _, kqp := range w.verbs.QueuePairs() {
				states = append(states, kqp.State())
			}
		}
	}
	c := w.dialIn()
	closeConn(t, c)
	if !slices.Equal(states, []uint8{abi.IB_QPS_RTS}) { // no more when the ID goes
		t.Errorf("states %d", states)
	}
	w.empty()
}

// TestCloseHeldQP: a queue pair that a memory window holds stays, but its work ends.
func TestCloseHeldQP(t *testing.T) {
	w := newWorld(t, aRXE)
	c := w.dialIn()
	mr := value(c.PD().AllocMR(64, verbs.AccessLocalWrite|verbs.AccessMWBind, nil))(t)
	mw := value(c.PD().AllocMW(verbs.MWType2))(t)
	value(c.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpBindMW, Bind: &verbs.BindMW{
		MW: mw, RKey: uverbs.IncRKey(mw.RKey()), MR: mr, Addr: mr.Addr(), Length: 64, Access: verbs.AccessRemoteRead}}}))(t)
	if err := c.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
	if s := w.verbs.QueuePairs()[0].State(); s != abi.IB_QPS_ERR {
		t.Errorf("state %d", s)
	}
	noErr(t, errors.Join(mw.Close(), mr.Close()))
	closeConn(t, c)
	w.empty()
}

// TestCloseTwice: a second Close matches net.ErrClosed, and that of a nil pointer os.ErrInvalid.
func TestCloseTwice(t *testing.T) {
	for name, err := range map[string]error{
		"Conn": (*Conn)(nil).Close(), "Listener": (*Listener)(nil).Close(), "EventChannel": (*EventChannel)(nil).Close(),
		"ID": (*ID)(nil).Destroy(), "Group": (*Group)(nil).Leave(), "Multicast": (*Multicast)(nil).Leave(),
	} {
		if !errors.Is(err, os.ErrInvalid) {
			t.Errorf("nil %s: %v", name, err)
		}
	}
	w := newDatagramWorld(t)
	c := w.openUD()
	g, err := c.JoinMulticast(t.Context(), group4, JoinFullMember)
	if err != nil {
		t.Fatal(err)
	}
	noErr(t, errors.Join(g.Leave(), c.Close()))
	for name, again := range map[string]func() error{"Leave": g.Leave, "Close": c.Close} {
		if err := again(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s again: %v", name, err)
		}
	}
	w.empty()
	ch := newEventChannel(newFake())
	noErr(t, ch.Close())
	if err := ch.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
