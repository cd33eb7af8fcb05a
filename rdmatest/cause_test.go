package rdmatest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestOverflowEndsConnection checks that a CQ that overflows ends the waits and the connection, with
// that cause. The completions that it still has are returned first.
func TestOverflowEndsConnection(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW, rdmatest.MLX5} { // ERDMA's model loses none
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOverflow(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})) })
		})
	}
}

func testOverflow(t *testing.T, f *rdmatest.Fabric) {
	var small *uverbs.CQ // the dialling end's
	cfg := &rdmacm.Config{PrepareQP: func(c *rdmacm.Conn, o *uverbs.QPOptions) (err error) {
		o.Cap.MaxSendWR = 64
		if small == nil {
			ch := must(c.Device().CreateCompChannel())(t)
			c.Own(ch)
			small = must(c.Device().CreateCQ(2, &uverbs.CQOptions{Channel: ch}))(t)
			c.Own(small)
			o.SendCQ = small
		}
		return nil
	}}
	a, b := meet(t, f, cfg)
	from, to := region(t, a, nil), region(t, b, nil)
	room := small.Cap()
	for range 2*room + 2 { // MLX5 has room for more than it says
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.SGE(0, 8)}, RemoteAddr: to.Addr(), RKey: to.RKey()}
		if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
	}
	wcs := make([]verbs.WC, 1)
	n := 0
	for _, err := small.Wait(t.Context(), wcs); err == nil; _, err = small.Wait(t.Context(), wcs) {
		n++
	}
	if n < room {
		t.Errorf("%d of %d completions", n, room)
	}
	<-a.Done()
	_, send := small.Wait(t.Context(), wcs)
	_, recv := a.RecvCQ().Wait(t.Context(), wcs)
	for _, err := range []error{send, recv, a.Err()} {
		if !errors.Is(err, verbs.ErrCQOverflow) {
			t.Error(err)
		}
	}
}

// TestRanDryIsNamed checks that on iWARP a message that finds no receive ends the connection. The end
// without a receive says so, and the other one does not.
func TestRanDryIsNamed(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.SIW, rdmatest.ERDMA} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := meet(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), nil)
				if _, err := a.QP().PostRecv([]verbs.RecvWR{{}}); err != nil {
					t.Fatal(err)
				}
				if _, err := a.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
					t.Fatal(err)
				}
				<-b.Done()
				if err := b.Err(); !errors.Is(err, rdmacm.ErrDisconnected) || !strings.Contains(err.Error(), "no receive was posted here") {
					t.Error(err)
				}
				<-a.Done()
				if err := a.Err(); strings.Contains(err.Error(), "no receive") { // ERDMA's send has failed, too
					t.Error(err)
				}
			})
		})
	}
}

// TestPortIsNamed checks that if a connection ends while its port is down, the cause says so.
func TestPortIsNamed(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.MLX5} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				a, _ := meet(t, f, nil)
				f.Host(0).Device(0).SetLink(false)
				if _, err := a.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
					t.Fatal(err)
				}
				for _, err := a.SendCQ().Wait(t.Context(), make([]verbs.WC, 1)); err == nil; {
					_, err = a.SendCQ().Wait(t.Context(), make([]verbs.WC, 1))
				}
				want := fmt.Sprintf("port 1 of %s is down", a.Device().Info().Name)
				if err := a.Err(); !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("%v, want %q in it", err, want)
				}
			})
		})
	}
}

// TestErrorBeforeHangUp checks that if the peer disconnects because of an error, and the completion
// that reports it has not been polled yet, the cause is that error.
func TestErrorBeforeHangUp(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} { // iWARP reports none
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := meet(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), nil)
				from := region(t, a, nil)
				wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{from.SGE(0, 8)}, RKey: 1}
				if _, err := a.QP().PostSend([]verbs.SendWR{wr}); err != nil {
					t.Fatal(err)
				}
				if err := b.Disconnect(); err != nil {
					t.Fatal(err)
				}
				<-a.Done()
				if err := a.Err(); !errors.Is(err, verbs.StatusRemAccessErr) {
					t.Error(err)
				}
			})
		})
	}
}
