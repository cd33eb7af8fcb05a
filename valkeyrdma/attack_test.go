package valkeyrdma

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// TestHostilePeers checks that a peer that uses its queue pair in violation of the protocol ends its
// own connection and no other. Data that arrived before can be read.
func TestHostilePeers(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		for name, attack := range map[string]func(c *Conn) verbs.SendWR{
			"a long SEND": func(c *Conn) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpSend, Inline: make([]byte, commandSize+1)}
			},
			"an empty SEND":         func(c *Conn) verbs.SendWR { return verbs.SendWR{Opcode: verbs.OpSend} },
			"a SEND with immediate": func(c *Conn) verbs.SendWR { return verbs.SendWR{Opcode: verbs.OpSendImm, Imm: 1} },
			"a wrong notice": func(c *Conn) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Imm: 1 << 31}
			},
			"a wrong key": func(c *Conn) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Imm: 1, RemoteAddr: c.stream.to.addr, RKey: c.stream.to.key + 1000, Inline: []byte("x")}
			},
			"a wrong address": func(c *Conn) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpRDMAWriteImm, Imm: 1, RemoteAddr: c.stream.to.addr + uint64(c.stream.to.length), RKey: c.stream.to.key, Inline: []byte("x")}
			},
			"an RDMA READ": func(c *Conn) verbs.SendWR {
				return verbs.SendWR{Opcode: verbs.OpRDMARead, RemoteAddr: c.stream.to.addr, RKey: c.stream.to.key, SGL: []verbs.SGE{c.verbs.control.SGE(0, 8)}}
			},
		} {
			t.Run(kind.String()+" "+name, func(t *testing.T) {
				f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
				l, err := Listen(t.Context(), f.Host(1).Addr()+":0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				connect := func() (a, b *Conn) {
					accepted := make(chan net.Conn, 1)
					go func() {
						c, err := l.Accept()
						if err != nil {
							t.Error(err)
						}
						accepted <- c
					}()
					a, err := Dial(f.Host(0).Context(t.Context()), l.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { a.Close() })
					b = (<-accepted).(*Conn)
					t.Cleanup(func() { b.Close() })
					return a, b
				}
				bad, victim := connect()
				if err := write(bad, []byte("hello")); err != nil {
					t.Fatal(err)
				}
				bad.conn.Mu.Lock()
				wr := attack(bad)
				wr.Flags = verbs.SendSignaled
				_, err = bad.conn.RC.QP().PostSend([]verbs.SendWR{wr})
				bad.conn.Mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				_ = victim.SetDeadline(time.Now().Add(time.Minute))
				if got, err := read(victim, 5); string(got) != "hello" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				if n, err := victim.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%d, %v", n, err)
				}
				good, other := connect()
				if err := write(good, []byte("fine")); err != nil {
					t.Error(err)
				}
				if got, err := read(other, 4); string(got) != "fine" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
	}
}

// TestWrongCompletion checks that a completion of a receive that was never posted ends the
// connection.
func TestWrongCompletion(t *testing.T) {
	for _, wrid := range []uint64{recvs, 1 << 63, 1<<64 - 1} {
		for _, opcode := range []verbs.WCOpcode{verbs.WCRecv, verbs.WCRecvRDMAWithImm} {
			a, _ := newFabric(t, rdmatest.RXE).pair(Config{})
			wc := verbs.WC{WRID: wrid, Opcode: opcode, ByteLen: commandSize}
			if opcode == verbs.WCRecvRDMAWithImm {
				wc.Flags = verbs.WCWithImm
			}
			err := func() error {
				a.conn.Mu.Lock()
				defer a.conn.Mu.Unlock()
				a.conn.Received(&wc)
				return a.stream.failed
			}()
			if !errors.Is(err, syscall.ECONNRESET) || errors.Is(err, ErrProtocol) {
				t.Errorf("%#x: %v", wrid, err)
			}
			if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%#x: %v", wrid, err)
			}
		}
	}
}

// TestCauseOfEnd checks that a stream that a failed work request ended names that request's status,
// although the receives that it flushed are polled first.
func TestCauseOfEnd(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} {
		f := newFabric(t, kind)
		a, b := f.pair(Config{})
		if err := write(b, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(make([]byte, 1)); err != nil { // a has received b's offer
			t.Fatal(err)
		}
		f.Host(0).Device(0).FailSend(0, verbs.StatusRemAccessErr)
		_ = write(a, []byte("y"))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, verbs.StatusRemAccessErr) {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

// TestDeviceRemoved checks that the removal of the device ends all calls, and their errors say so.
func TestDeviceRemoved(t *testing.T) {
	f := newFabric(t, rdmatest.MLX5)
	a, b := f.pair(Config{RecvBuffer: leastBuffer})
	if err := write(a, []byte("x")); err != nil { // both ends have received an offer
		t.Fatal(err)
	}
	conntest.Removed(t, f.Host(0).Device(0),
		func() error { _, err := a.Read(make([]byte, 1)); return err },
		func() error { return write(a, make([]byte, 1<<20)) },
		func() error { return write(b, make([]byte, 1<<20)) })
}

// TestCloseStorm checks that concurrent closes of all kinds, with calls in progress, leave nothing
// behind.
func TestCloseStorm(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			before := runtime.NumGoroutine()
			for round := range 16 {
				a, b, err := f.pipe(Config{RecvBuffer: leastBuffer << (round % 4)})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for _, c := range []*Conn{a, b} {
					all.Go(func() { _, _ = c.Write(make([]byte, 300_000)) })
					all.Go(func() { _, _ = io.ReadFull(c, make([]byte, 100_000)) })
					all.Go(func() { _ = c.SetLinger(round%3 - 1) })
					for range 3 {
						all.Go(func() { _ = c.SetDeadline(time.Now().Add(time.Hour)) })
						all.Go(func() { _ = c.Close() })
						all.Go(func() { _ = c.Shutdown(ctx) })
					}
				}
				cancel()
				all.Wait()
				for _, c := range []*Conn{a, b} {
					_, _ = c.conn.Freed(context.Background())
				}
			}
			for start := time.Now(); runtime.NumGoroutine() > before+2; time.Sleep(time.Millisecond) {
				if time.Since(start) > time.Minute {
					t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
				}
			}
		})
	}
}

// TestCycles connects, transfers data and closes many times. No goroutine and no memory must be left.
func TestCycles(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			conntest.Cycles(t, 1, func() error {
				a, b, err := f.pipe(Config{SendBuffer: leastBuffer, RecvBuffer: leastBuffer})
				if err != nil {
					return err
				}
				text, err := []byte(nil), write(a, []byte("hello"))
				if err == nil {
					text, err = read(b, 5)
				}
				if err == nil && string(text) != "hello" {
					err = fmt.Errorf("%q came", text)
				}
				return errors.Join(err, a.Shutdown(f.t.Context()), b.Shutdown(f.t.Context()))
			})
		})
	}
}

// TestRandomEnds ends a connection in a random way at a random moment while both ends read and write. Every call must
// end, and the data that has arrived must be correct.
func TestRandomEnds(t *testing.T) {
	rounds := 24
	if testing.Short() {
		rounds = 6
	}
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.MLX5} { // erdma's TCP takes long to notice that the network is down
		t.Run(kind.String(), func(t *testing.T) {
			for round := range rounds {
				synctest.Test(t, func(t *testing.T) { randomEnd(t, kind, round) })
			}
		})
	}
}

func randomEnd(t *testing.T, kind rdmatest.Kind, round int) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: kind})
	l, err := (&ListenConfig{Config: Config{RecvBuffer: 20_000}}).Listen(t.Context(), f.Host(1).Addr()+":0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	a, err := (&Dialer{Config: Config{RecvBuffer: 20_000}}).Dial(f.Host(0).Context(t.Context()), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := (<-accepted).(*Conn)
	ended := make(chan struct{})
	var all sync.WaitGroup
	for i, c := range []*Conn{a, b} {
		all.Go(func() {
			for n := byte(0); ; n++ {
				if write(c, []byte{n}) != nil {
					return
				}
			}
		})
		all.Go(func() {
			moved := 0
			for n := byte(0); ; n++ {
				got, err := read(c, 1)
				if err != nil {
					if errors.Is(err, ErrProtocol) {
						t.Error(err)
					}
					return
				}
				if got[0] != n {
					t.Errorf("%d, want %d", got[0], n)
					return
				}
				if moved++; i == 0 && moved == 100*round+1 {
					close(ended)
				}
			}
		})
	}
	<-ended
	switch round % 4 {
	case 0:
		_ = a.Close()
	case 1:
		_ = b.SetLinger(0)
		_ = b.Close()
	case 2:
		defer f.Partition(f.Host(0), f.Host(1))()
	case 3:
		_ = a.conn.RC.Disconnect() // as the kernel does when the process dies
	}
	all.Wait()
	_ = a.Close()
	_ = b.Close()
	_ = l.Close()
}
