package rdmacm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// patience is a guard against a hang.
const patience = 2 * time.Minute

// connect returns the two ends of a connection between two hosts with devices of one kind.
func connect(t *testing.T, kind rdmatest.Kind, server *rdmacm.Config) (dialled, accepted *rdmacm.Conn) {
	t.Helper()
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
	var lc rdmacm.ListenConfig
	if server != nil {
		lc.Config = *server
	}
	l, err := lc.Listen(context.Background(), f.Host(1).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan *rdmacm.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	dialled, err = rdmacm.Dial(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if accepted = <-got; accepted == nil {
		t.FailNow()
	}
	t.Cleanup(func() { _ = errors.Join(dialled.Close(), accepted.Close()) })
	return dialled, accepted
}

// A wait for completions ends with the connection, on devices of each kind: with nothing
// posted, and behind a send that succeeded without a completion.
func TestWaitEndsWithConn(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		for _, quiet := range []bool{false, true} {
			name := kind.String()
			if quiet {
				name += " quiet"
			}
			t.Run(name, func(t *testing.T) {
				c, peer := connect(t, kind, nil)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				cq := c.RecvCQ()
				if quiet {
					cq = c.SendCQ()
					if _, err := peer.QP().PostRecv([]verbs.RecvWR{{WRID: 1}}); err != nil {
						t.Fatal(err)
					}
					if _, err := c.QP().PostSend([]verbs.SendWR{{WRID: 2, Opcode: verbs.OpSend}}); err != nil {
						t.Fatal(err)
					}
					if _, err := peer.RecvCQ().Wait(ctx, make([]verbs.WC, 1)); err != nil {
						t.Fatal(err)
					}
				}
				ended := make(chan error)
				go func() {
					for {
						if _, err := cq.Wait(ctx, make([]verbs.WC, 4)); err != nil {
							ended <- err
							return
						}
					}
				}()
				if err := peer.Close(); err != nil {
					t.Error(err)
				}
				if err := <-ended; !errors.Is(err, rdmacm.ErrDisconnected) {
					t.Error(err)
				}
			})
		}
	}
}

// The cause of a connection's end is the work request that failed, also if the program polls the flushed
// receive first.
func TestCauseOnOtherCQ(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			c, _ := connect(t, kind, nil)
			if _, err := c.QP().PostRecv([]verbs.RecvWR{{WRID: 1}}); err != nil {
				t.Fatal(err)
			}
			mr, err := c.PD().AllocMR(8, verbs.AccessLocalWrite, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer mr.Close()
			write := verbs.SendWR{WRID: 2, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: 1 << 40, RKey: 0x123456}
			if _, err := c.QP().PostSend([]verbs.SendWR{write}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			wcs := make([]verbs.WC, 1)
			if n, err := c.RecvCQ().Wait(ctx, wcs); n == 1 && wcs[0].Status != verbs.StatusWRFlushErr || n == 0 && err == nil {
				t.Fatal(n, wcs[0], err)
			}
			iwarp := kind == rdmatest.SIW || kind == rdmatest.ERDMA // the end of the connection may be seen first
			if err := c.Err(); !errors.Is(err, verbs.StatusRemAccessErr) && !(iwarp && errors.Is(err, rdmacm.ErrDisconnected)) {
				t.Errorf("the cause is %v", err)
			}
			if iwarp {
				return
			}
			if n, err := c.SendCQ().Poll(wcs); n != 1 || err != nil || wcs[0].Status != verbs.StatusRemAccessErr {
				t.Error("the send:", n, err, wcs[0])
			}
		})
	}
}
