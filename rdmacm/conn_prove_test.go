package rdmacm

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	_ "github.com/goverbs/goverbs/provider/siw"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// connOnFake is a Conn whose queue pair belongs to a fake siw and is in RTS.
func connOnFake(t *testing.T, signalAll bool) (*Conn, *fakeverbs.QP) {
	t.Helper()
	return connOn(t, fakeverbs.New(uint32(verbs.DriverSIW)), signalAll)
}

func connOn(t *testing.T, k *fakeverbs.Kernel, signalAll bool) (*Conn, *fakeverbs.QP) {
	t.Helper()
	dev, err := openOn(uverbs.DeviceInfo{Name: "siw0", Driver: verbs.DriverSIW, ABI: 1}, k)
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(nil)
	c.device.Add(dev)
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if leaks := k.Leaks(); len(leaks) > 0 {
			t.Error("left:", leaks)
		}
	})
	if c.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	c.verbs.Add(c.pd)
	opts := (&Config{QP: uverbs.QPOptions{SignalAll: signalAll}}).withDefaults().QP
	if err := conn.MakeCQs(dev, &opts, 1, &c.verbs, &c.ending); err != nil {
		t.Fatal(err)
	}
	if c.qp, err = c.pd.CreateQP(&opts); err != nil {
		t.Fatal(err)
	}
	c.link.Add(c.qp)
	kqp := k.QueuePairs()[0]
	kqp.Connect(16, 16)
	return c, kqp
}

// bubble is test in a bubble, where time passes when nothing else can happen.
func bubble(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// peerKernel carries out WRITEs as siw does, at once. The READ it answers with
// status, unless that is negative, when so many WRITEs have come after it.
func peerKernel(ctx context.Context, qp *fakeverbs.QP, writes, status int) {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if _, ok := fakesiw.QPOf(qp).TakeSend(); ok {
			break
		}
		<-tick.C
	}
	for n := 0; n < writes && ctx.Err() == nil; {
		if qp.Carry(0) {
			n++
			continue
		}
		<-tick.C
	}
	if status < 0 || ctx.Err() != nil {
		return
	}
	fakesiw.CQOf(qp.SendCQ).Complete(abi.SiwCqe{Id: proofWRID, Opcode: abi.SIW_OP_READ, Status: uint16(status), QpId: uint64(qp.Num)})
}

// The proof of a connection leaves no completions for the user. In a bubble, a short wait is
// enough for all goroutines that have work to do.
func TestProveLeavesNothing(t *testing.T) {
	tests := []struct {
		name      string
		signalAll bool
		writes    int
		status    int
		breaks    bool
	}{
		{name: "at once"},
		{name: "reminded", writes: 3},
		{name: "reminded, all signalled", writes: 3, signalAll: true},
		{name: "flushed", status: abi.SIW_WC_WR_FLUSH_ERR, breaks: true},
		{name: "flushed after reminders", writes: 3, status: abi.SIW_WC_WR_FLUSH_ERR, breaks: true},
		{name: "flushed, all signalled", writes: 3, status: abi.SIW_WC_WR_FLUSH_ERR, breaks: true, signalAll: true},
	}
	for _, test := range tests {
		t.Run(test.name, bubble(func(t *testing.T) {
			k := fakeverbs.New(uint32(verbs.DriverSIW))
			k.InBubble = true
			c, qp := connOn(t, k, test.signalAll)
			answered, over := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { <-over })
			go func() {
				defer close(over)
				peerKernel(t.Context(), qp, test.writes, test.status)
				close(answered)
				if test.breaks {
					qp.Break()
					return
				}
				for t.Context().Err() == nil { // the last reminder, which may cross the answer
					qp.Carry(0)
					time.Sleep(100 * time.Microsecond)
				}
			}()
			if err := c.prove(t.Context(), time.Minute); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * proofInterval)
			select {
			case <-answered:
			default:
				t.Error("it returned before the peer's answer")
			}
			var wcs [8]verbs.WC
			if n, err := c.SendCQ().Poll(wcs[:]); n != 0 || err != nil {
				t.Errorf("left on the CQ: %+v, %v", wcs[:n], err)
			}
		}))
	}
}

// Somebody else has taken the completions.
func TestProveUnseen(t *testing.T) {
	c, qp := connOnFake(t, false)
	gone := make(chan struct{})
	t.Cleanup(func() { <-gone }) // before the queues are
	go func() {
		defer close(gone)
		peerKernel(t.Context(), qp, 0, -1)
	}()
	err := c.prove(t.Context(), 5*proofInterval)
	if !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 5*proofInterval)
	defer cancel()
	if err := c.prove(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}

	if err := c.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		t.Fatal(err)
	}
	c.ending.End(ErrDisconnected)
	if err := c.prove(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}
