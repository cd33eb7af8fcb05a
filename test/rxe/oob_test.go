//go:build vm

package rxe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeOOB connects queue pairs of each type over TCP, sends a message each way, and ends each connection in each
// way. siw has no counterpart: only the connection manager connects its queue pairs.
func TestRxeOOB(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	l := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	for _, kind := range []verbs.QPType{verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD} {
		for name, end := range map[string]func(*oob.Conn) error{"close": (*oob.Conn).Close, "disconnect": (*oob.Conn).Disconnect} {
			t.Run(fmt.Sprint(kind, "/", name), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
				defer cancel()
				var mu sync.Mutex // both ends prepare at a time
				regions := make(map[*oob.Conn]*uverbs.MR)
				cfg := &oob.Config{PD: d.PD, QP: uverbs.QPOptions{Type: kind}, Prepare: func(c *oob.Conn) error {
					mr, err := c.PD().AllocMR(4096, verbs.AccessLocalWrite, nil)
					if err != nil {
						return err
					}
					c.Own(mr)
					mu.Lock()
					regions[c] = mr
					mu.Unlock()
					_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(2048, 2048)}}})
					return err
				}}
				dialled := make(chan *oob.Conn)
				go func() {
					defer close(dialled)
					stream, err := net.Dial("tcp", l.Addr().String())
					if err != nil {
						t.Error(err)
						return
					}
					c, err := oob.Dial(ctx, stream, cfg)
					if err != nil {
						t.Error(err)
					}
					dialled <- c
				}()
				b := kit.Must(oob.Accept(ctx, kit.Must(l.Accept())(t), cfg))(t)
				a := <-dialled
				if a == nil {
					t.FailNow()
				}
				for _, ends := range [][2]*oob.Conn{{a, b}, {b, a}} {
					from, to, front := ends[0], ends[1], 0
					text := bytes.Repeat([]byte("x"), 1024)
					copy(regions[from].Bytes(), text)
					wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{regions[from].SGE(0, len(text))}}
					if p := from.Peer(); p != nil {
						wr.AH, wr.RemoteQPN, wr.RemoteQKey, front = p.AH, p.QPN, p.QKey, uverbs.GRHSize
					}
					kit.Must(from.QP().PostSend([]verbs.SendWR{wr}))(t)
					var wcs [1]verbs.WC
					for _, cq := range []*uverbs.CQ{from.SendCQ(), to.RecvCQ()} {
						kit.Must(cq.Wait(ctx, wcs[:]))(t)
						kit.OK(t, wcs[0].Err())
					}
					if got := regions[to].Bytes()[2048+front:][:len(text)]; !bytes.Equal(got, text) {
						t.Errorf("%v to %v: %q", from, to, got)
					}
				}
				kit.OK(t, end(a))
				select {
				case <-b.Done():
				case <-ctx.Done():
					t.Error("the other end goes on")
				}
				_ = a.Close() // it may be closed
				kit.OK(t, b.Close())
			})
		}
	}
}

// TestRxeOOBHalves exchanges offer and answer as bytes.
func TestRxeOOBHalves(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	cfg := &oob.Config{PD: d.PD}
	half := kit.Must(oob.Offer(cfg))(t)
	b, answer, err := oob.Answer(t.Context(), half.Bytes(), cfg)
	kit.OK(t, err)
	a := kit.Must(half.Connect(answer))(t)
	if a.MTU() != b.MTU() || a.InitiatorDepth() < 1 {
		t.Errorf("%v, %v", a, b)
	}
	kit.OK(t, a.Close())
	kit.OK(t, b.Disconnect())
	kit.OK(t, b.Close())
}

// TestRxeMsgOverTCP sends messages of all sizes over TCP-exchanged queue pairs, alone and in a pool.
func TestRxeMsgOverTCP(t *testing.T) {
	d := kit.OpenRxe(t)
	kit.NoLeak(t)
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprint(pooled), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
			defer cancel()
			var cfg msg.Config
			over := &oob.Config{PD: d.PD}
			if pooled {
				cfg.Pool = kit.Must(msg.NewPool(d.Device, 4, nil))(t)
				over = nil
			}
			streams := kit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
			l := kit.Must((&msg.ListenConfig{Config: cfg}).ListenOver(streams, over))(t)
			echoed := make(chan error, 1)
			go func() {
				c, err := l.Accept(ctx)
				for err == nil {
					var m *msg.Message
					if m, err = c.Recv(ctx); err == nil {
						err = c.Send(ctx, m.Bytes())
						m.Release()
					}
				}
				if c != nil {
					_ = c.Shutdown(ctx)
				}
				echoed <- err
			}()
			c := kit.Must((&msg.Dialer{Config: cfg}).DialOver(ctx, kit.Must(net.Dial("tcp", streams.Addr().String()))(t), over))(t)
			for _, size := range []int{0, 1, 4096, 4097, 1 << 20} {
				text := bytes.Repeat([]byte("x"), size)
				sent := make(chan error, 1)
				go func() { sent <- c.Send(ctx, text) }()
				m := kit.Must(c.Recv(ctx))(t)
				if !bytes.Equal(m.Bytes(), text) {
					t.Errorf("%d bytes: %d came back", size, len(m.Bytes()))
				}
				m.Release()
				kit.OK(t, <-sent)
			}
			kit.OK(t, errors.Join(c.Shutdown(ctx), l.Close()))
			<-echoed
			if cfg.Pool != nil {
				kit.OK(t, cfg.Pool.Close())
			}
		})
	}
}
