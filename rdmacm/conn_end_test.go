package rdmacm

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// dialIn dials in the world and posts receives 1 and 2.
func (w *world) dialIn() *Conn {
	w.t.Helper()
	c, err := dialAddr(w.t.Context(), addr4, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	kqp := w.verbs.QueuePairs()[0]
	if w.info.Driver == verbs.DriverSIW {
		kqp.Connect(16, 16)
	}
	if _, err := c.QP().PostRecv([]verbs.RecvWR{{WRID: 1}, {WRID: 2}}); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// drained takes the flushed receives, and then the end.
func drained(t *testing.T, c *Conn, cause error) {
	t.Helper()
	var wcs [1]verbs.WC
	for id := uint64(1); id <= 2; id++ {
		if _, err := c.RecvCQ().Wait(t.Context(), wcs[:]); err != nil || wcs[0].WRID != id || wcs[0].Status != verbs.StatusWRFlushErr {
			t.Errorf("%+v, %v", wcs[0], err)
		}
		if err := c.Err(); !errors.Is(err, cause) {
			t.Errorf("flushed with Err %v, want %v", err, cause)
		}
	}
	for _, cq := range []*uverbs.CQ{c.RecvCQ(), c.SendCQ()} {
		if n, err := cq.Wait(t.Context(), wcs[:]); n != 0 || !errors.Is(err, cause) {
			t.Errorf("behind the end: %d, %v, want %v", n, err, cause)
		}
	}
	<-c.Done()
}

func TestEndsOfConn(t *testing.T) {
	tests := []struct {
		name string
		end  func(*world, *Conn)
		want map[verbs.DriverID]error
	}{
		{"the peer disconnects", func(w *world, c *Conn) { w.cms[0].report(c.id.handle, EventDisconnected, nil) },
			map[verbs.DriverID]error{verbs.DriverSIW: ErrDisconnected, verbs.DriverRXE: ErrDisconnected}},
		{"this side disconnects", func(w *world, c *Conn) {
			if err := c.Disconnect(); err != nil {
				w.t.Error(err)
			}
			w.cms[0].report(c.id.handle, EventDisconnected, nil)
		}, map[verbs.DriverID]error{verbs.DriverSIW: ErrDisconnected, verbs.DriverRXE: ErrDisconnected}},
		{"the device goes", func(w *world, c *Conn) { w.cms[0].report(c.id.handle, EventDeviceRemoval, nil) },
			map[verbs.DriverID]error{verbs.DriverSIW: ErrDeviceRemoved, verbs.DriverRXE: ErrDeviceRemoved}},
		{"the peer disconnects because the device goes", func(w *world, c *Conn) {
			w.host.removed.Store(true)
			w.cms[0].report(c.id.handle, EventDisconnected, nil)
		}, map[verbs.DriverID]error{verbs.DriverSIW: ErrDeviceRemoved, verbs.DriverRXE: ErrDeviceRemoved}},
		{"the queue pair fails because the device goes", func(w *world, c *Conn) {
			w.host.removed.Store(true)
			w.verbs.QueuePairs()[0].Break()
		}, map[verbs.DriverID]error{verbs.DriverSIW: ErrDeviceRemoved, verbs.DriverRXE: ErrDeviceRemoved}},
		{"the device goes out of sight and the peer disconnects", func(w *world, c *Conn) {
			w.host.hidden.Store(true)
			w.cms[0].report(c.id.handle, EventDisconnected, nil)
		}, map[verbs.DriverID]error{verbs.DriverSIW: ErrDisconnected, verbs.DriverRXE: ErrDisconnected}},
		{"the peer disconnects and the device is gone", func(w *world, c *Conn) {
			w.host.hidden.Store(true)
			w.verbs.Fail("QUERY_PORT", 0, syscall.EIO)
			w.cms[0].report(c.id.handle, EventDisconnected, nil)
		}, map[verbs.DriverID]error{verbs.DriverSIW: ErrDeviceRemoved, verbs.DriverRXE: ErrDeviceRemoved}},
		{"this side disconnects as the device goes", func(w *world, c *Conn) {
			w.host.removed.Store(true)
			if err := c.Disconnect(); err != nil {
				w.t.Error(err)
			}
			w.cms[0].report(c.id.handle, EventDisconnected, nil)
		}, map[verbs.DriverID]error{verbs.DriverSIW: ErrDisconnected, verbs.DriverRXE: ErrDisconnected}},
		{"the kernel fails the queue pair and says nothing", func(w *world, c *Conn) { w.verbs.QueuePairs()[0].Break() },
			map[verbs.DriverID]error{verbs.DriverSIW: ErrDisconnected, verbs.DriverRXE: verbs.StatusWRFlushErr}},
		{"no more events", func(w *world, c *Conn) {
			w.cms[0].fail(abi.RDMA_USER_CM_CMD_GET_EVENT, syscall.EACCES)
			w.cms[0].events <- abi.RdmaUcmEventResp{} // to have the hub ask again
		}, map[verbs.DriverID]error{verbs.DriverSIW: syscall.EACCES, verbs.DriverRXE: syscall.EACCES}},
	}
	for _, info := range []uverbs.DeviceInfo{aSIW, aRXE} {
		for _, test := range tests {
			t.Run(info.Name+" "+test.name, func(t *testing.T) {
				w := newWorld(t, info)
				c := w.dialIn()
				if err := c.Err(); err != nil {
					t.Fatal(err)
				}
				test.end(w, c)
				drained(t, c, test.want[info.Driver])
				closeConn(t, c)
				if err := c.Err(); !errors.Is(err, test.want[info.Driver]) {
					t.Error("after Close:", err)
				}
				w.empty()
			})
		}
	}
}

// The first work request that fails ends the connection, though neither kernel nor
// peer say anything. Later flushes and reports are not the cause.
func TestFailedWorkEndsConn(t *testing.T) {
	for _, info := range []uverbs.DeviceInfo{aSIW, aRXE} {
		w := newWorld(t, info)
		c := w.dialIn()
		if _, err := c.QP().PostSend([]verbs.SendWR{{WRID: 3, Opcode: verbs.OpSend}}); err != nil {
			t.Fatal(err)
		}
		status, want := uint32(abi.IB_WC_REM_ACCESS_ERR), verbs.StatusRemAccessErr
		if info.Driver == verbs.DriverSIW {
			status = abi.SIW_WC_REM_ACCESS_ERR
		}
		kqp := w.verbs.QueuePairs()[0]
		kqp.Carry(status)
		var wcs [1]verbs.WC
		if _, err := c.SendCQ().Wait(t.Context(), wcs[:]); err != nil || wcs[0].Status != want {
			t.Errorf("%s: %+v, %v", info.Name, wcs[0], err)
		}
		if err := c.Err(); !errors.Is(err, want) {
			t.Errorf("%s: %v", info.Name, err)
		}
		<-c.Done()
		w.cms[0].report(c.id.handle, EventDisconnected, nil)
		drained(t, c, want)
		closeConn(t, c)
		w.empty()
	}
}

// A completion that fails during the set-up is no outcome of it, but ends the
// connection that comes of it.
func TestFailsBeforeItStands(t *testing.T) {
	c := newConn(nil)
	c.ending.Fail(verbs.StatusLocProtErr)
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	select {
	case <-c.Done():
		t.Error("ended during the set-up")
	default:
	}
	c.ending.Establish()
	if <-c.Done(); c.Err() != verbs.StatusLocProtErr {
		t.Error(c.Err())
	}
}

// A wait that Close ends returns the same whenever it begins.
func TestCloseEndsWaits(t *testing.T) {
	w := newWorld(t, aRXE)
	c := w.dialIn()
	cq := c.SendCQ()
	waited := make(chan error)
	go func() {
		_, err := cq.Wait(context.Background(), make([]verbs.WC, 1))
		waited <- err
	}()
	closeConn(t, c)
	if err := <-waited; !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	if !errors.Is(c.Err(), net.ErrClosed) {
		t.Error(c.Err())
	}
	w.empty()
}

// CQs of the caller's may serve other connections, and go on.
func TestEndLeavesSharedCQs(t *testing.T) { synctest.Test(t, testEndLeavesSharedCQs) }

func testEndLeavesSharedCQs(t *testing.T) {
	w := newWorld(t, aRXE)
	first := w.dialIn()
	channel, err := first.Device().CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := first.Device().CreateCQ(64, &uverbs.CQOptions{Channel: channel})
	if err != nil {
		t.Fatal(err)
	}
	second, err := dialAddr(t.Context(), addr4, &Config{PD: first.PD(), QP: uverbs.QPOptions{SendCQ: cq, RecvCQ: cq}})
	if err != nil {
		t.Fatal(err)
	}
	w.cms[0].report(second.id.handle, EventDisconnected, nil)
	<-second.Done()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := cq.Wait(ctx, make([]verbs.WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	closeConn(t, second)
	if err := errors.Join(cq.Close(), channel.Close()); err != nil {
		t.Error(err)
	}
	closeConn(t, first)
	w.empty()
}

// TestExplain checks that calls that fail with EIO show a removal before its event arrives.
func TestExplain(t *testing.T) {
	w := newWorld(t, aRXE)
	c := w.dialIn()
	gone := &verbs.Error{Op: "post", Err: syscall.EIO}
	if err := c.Explain(gone); !errors.Is(err, ErrDeviceRemoved) || !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := c.Explain(syscall.EINVAL); err != syscall.EINVAL {
		t.Error(err)
	}
	closeConn(t, c)
	if err := c.Explain(gone); err != net.ErrClosed {
		t.Error(err)
	}
	w.empty()
}

// TestCloseAcknowledges checks that Close disconnects, and frees the queue pair, without the error
// state, in which rxe no longer acknowledges messages.
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

// TestCloseHeldQP checks that a queue pair that a memory window holds stays, but its work ends.
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

// TestCloseTwice checks that a second Close matches net.ErrClosed, and that of a nil pointer
// os.ErrInvalid.
func TestCloseTwice(t *testing.T) {
	for name, err := range map[string]error{
		"Conn": (*Conn)(nil).Close(), "Listener": (*Listener)(nil).Close(), "EventChannel": (*EventChannel)(nil).Close(),
		"ID": (*ID)(nil).Close(), "Group": (*Group)(nil).Close(), "Multicast": (*Multicast)(nil).Close(),
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
	noErr(t, errors.Join(g.Close(), c.Close()))
	for name, again := range map[string]func() error{"Leave": g.Close, "Close": c.Close} {
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
