package rdmatest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// quiet is a benchmark whose cleanups run when the test calls them.
type quiet struct {
	*testing.B
	cleanups []func()
}

func (q *quiet) Cleanup(f func()) { q.cleanups = append(q.cleanups, f) }

func (q *quiet) end() {
	for i := range q.cleanups {
		q.cleanups[len(q.cleanups)-1-i]()
	}
	q.cleanups = nil
}

// BenchmarkNew is the start and the end of a fabric of two devices.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		q := &quiet{B: b}
		rdmatest.New(q)
		q.end()
	}
}

// BenchmarkConnect is a connection, made and closed, of devices that are open. It also says
// how long making it takes: until both sides have it.
func BenchmarkConnect(b *testing.B) {
	for _, k := range rdmatest.Kinds {
		b.Run(k.String(), func(b *testing.B) {
			f := rdmatest.NewWith(b, &rdmatest.Options{Kind: k})
			meet(b, f, nil) // which keeps the devices open
			l, err := rdmacm.Listen(b.Context(), f.Host(1).Addr()+":0")
			if err != nil {
				b.Fatal(err)
			}
			accepted := make(chan *rdmacm.Conn)
			go func() {
				for {
					c, err := l.Accept(context.Background())
					if err != nil {
						return
					}
					accepted <- c
				}
			}()
			var making time.Duration
			for b.Loop() {
				start := time.Now()
				c, err := rdmacm.Dial(context.Background(), l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				s := <-accepted
				making += time.Since(start)
				if err := errors.Join(c.Close(), s.Close()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(making.Nanoseconds())/float64(b.N), "ns/connect")
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkChannel is a round trip over two channels. It says how fast goroutines wake each
// other, here and now, and so what to compare the others with.
func BenchmarkChannel(b *testing.B) {
	there, back := make(chan int), make(chan int)
	go func() {
		for v := range there {
			back <- v
		}
	}()
	for b.Loop() {
		there <- 1
		<-back
	}
	close(there)
}

// BenchmarkRoundTrip is 64 bytes there and back between two goroutines that wait for them,
// with package rdmacm.
func BenchmarkRoundTrip(b *testing.B) {
	for _, k := range rdmatest.Kinds {
		b.Run(k.String(), func(b *testing.B) {
			f := rdmatest.NewWith(b, &rdmatest.Options{Kind: k})
			x, y := meet(b, f, nil)
			one, two := newPlayer(b, x), newPlayer(b, y)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					if err := two.recv(); err != nil {
						return
					}
					if err := two.send(); err != nil {
						return
					}
				}
			}()
			for b.Loop() {
				if err := errors.Join(one.send(), one.recv()); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := x.Disconnect(); err != nil {
				b.Error(err)
			}
			<-done
		})
	}
}

// player sends and receives messages of 64 bytes.
type player struct {
	c     *rdmacm.Conn
	mr    *uverbs.MR
	wcs   []verbs.WC
	sends []verbs.SendWR
	recvs []verbs.RecvWR
}

const size = 64

func newPlayer(t testing.TB, c *rdmacm.Conn) *player {
	t.Helper()
	mr, err := c.PD().AllocMR(2*size, verbs.AccessLocalWrite, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mr.Close(); err != nil {
			t.Error(err)
		}
	})
	e := &player{c: c, mr: mr, wcs: make([]verbs.WC, 4),
		sends: []verbs.SendWR{{Opcode: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(size, size)}, Flags: verbs.SendSignaled}},
		recvs: []verbs.RecvWR{{SGL: []verbs.SGE{mr.SGE(0, size)}}}}
	e.post(t)
	return e
}

func (e *player) post(t testing.TB) {
	if _, err := e.c.QP().PostRecv(e.recvs); err != nil {
		t.Fatal(err)
	}
}

func (e *player) send() error {
	_, err := e.c.QP().PostSend(e.sends)
	if err != nil {
		return err
	}
	_, err = e.c.SendCQ().Wait(context.Background(), e.wcs)
	return err
}

func (e *player) recv() error {
	n, err := e.c.RecvCQ().Wait(context.Background(), e.wcs)
	if err != nil || n == 0 {
		return err
	}
	if e.wcs[0].Status != verbs.StatusSuccess {
		return e.wcs[0].Status
	}
	_, err = e.c.QP().PostRecv(e.recvs)
	return err
}

// BenchmarkMessages is the same with package msg.
func BenchmarkMessages(b *testing.B) {
	f := rdmatest.New(b)
	l, err := msg.Listen(b.Context(), f.Host(1).Addr()+":0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept(context.Background())
		for err == nil {
			var m *msg.Message
			if m, err = c.Recv(context.Background()); err == nil {
				err = c.Send(context.Background(), m.Bytes())
				m.Release()
			}
		}
		done <- c.Close()
	}()
	c, err := msg.Dial(context.Background(), l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, size)
	for b.Loop() {
		if err := c.Send(context.Background(), data); err != nil {
			b.Fatal(err)
		}
		m, err := c.Recv(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		m.Release()
	}
	if err := errors.Join(c.Close(), <-done, l.Close()); err != nil {
		b.Error(err)
	}
}
