package rsocket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
)

// isTimeout reports whether err is a timeout as package net's are.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// stuckConn is a connection in a network that delivers nothing, with data that was written.
func stuckConn(t *testing.T, z Config) (a, b *Conn, resume func()) {
	t.Helper()
	f := newFabric(t, rdmatest.RXE) // over iWARP a send has completed once it is on its way
	a, b = f.pair(z)
	_, resume = f.Pause()
	if _, err := a.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	return a, b, resume
}

// TestCloseReturnsAtOnce checks that Close waits for no network. Calls that are blocked in the
// connection end, mappings are the program's again, and the data is sent in the background.
func TestCloseReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, resume := stuckConn(t, Config{Mappings: 1})
		blocked := make(chan error, 2)
		go func() {
			_, err := a.Read(make([]byte, 1))
			blocked <- err
		}()
		go func() {
			_, err := a.Write(make([]byte, 1<<20))
			blocked <- err
		}()
		synctest.Wait()
		m, err := a.mappings.add(a.conn.RC.PD(), make([]byte, 8))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-blocked; !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}
		if passed := time.Since(start); passed != 0 {
			t.Errorf("Close and the calls that it ends took %v", passed)
		}
		if err := m.Close(); !errors.Is(err, net.ErrClosed) || a.mappings.held[0] != nil {
			t.Error("the mapping is open:", err)
		}
		resume()
		got, err := io.ReadAll(b)
		if err != nil || len(got) < 5 || string(got[:5]) != "hello" {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseGivesUp checks that data that a machine does not take is discarded after the limit: 10
// seconds, or as long as SetLinger allows.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			linger       int
			close, freed time.Duration
		}{{-1, 0, 10 * time.Second}, {3, 3 * time.Second, 3 * time.Second}, {100, 100 * time.Second, 100 * time.Second}} {
			a, b, resume := stuckConn(t, Config{})
			if err := a.SetLinger(test.linger); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err := a.Close()
			if took := time.Since(start); took != test.close || isTimeout(err) != (test.close > 0) {
				t.Errorf("linger %d: Close took %v, %v", test.linger, took, err)
			}
			if err := a.Shutdown(t.Context()); !isTimeout(err) || time.Since(start) != test.freed {
				t.Errorf("linger %d: freed after %v, %v", test.linger, time.Since(start), err)
			}
			if _, err := b.Read(make([]byte, 9)); !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
			resume()
		}
	})
}

// TestShutdown checks that Shutdown waits for the data, or until its context ends, after which the
// data is still sent.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, resume := stuckConn(t, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		err := a.Shutdown(ctx)
		var op *net.OpError
		if !errors.Is(err, context.DeadlineExceeded) || !isTimeout(err) || !errors.As(err, &op) || time.Since(start) != 2*time.Second {
			t.Errorf("%v, after %v", err, time.Since(start))
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		resume()
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(b); string(got) != "hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestShutdownBroken checks that Shutdown reports that the connection broke before the data was
// taken.
func TestShutdownBroken(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{})
		if err := errors.Join(b.SetLinger(0), b.Close()); err != nil {
			t.Error(err)
		}
		<-a.conn.RC.Done()
		if err := a.Shutdown(t.Context()); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

// TestShutdownInOrder checks that when both directions have ended in order, it does not matter that
// the peer has closed first.
func TestShutdownInOrder(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{})
		for _, c := range []*Conn{a, b} {
			if err := c.CloseWrite(); err != nil {
				t.Error(err)
			}
		}
		for _, c := range []*Conn{a, b} {
			if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
		}
		if err := b.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-a.conn.RC.Done()
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestReset checks that with SetLinger(0) Close discards the data, resets the connection, and has
// freed everything when it returns.
func TestReset(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{})
		signal(t, a, b)
		if err := errors.Join(a.SetLinger(0), a.Close()); err != nil {
			t.Error(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, canceled := a.conn.Freed(ended); canceled != nil {
			t.Error("Close left something to free")
		}
		if _, err := b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if err := a.SetLinger(1); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestCloseAgain checks that a second Close returns net.ErrClosed, and one of nothing os.ErrInvalid.
func TestCloseAgain(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	l, err := Listen(t.Context(), fabricHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := acceptAndClose(l)
	c, err := Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	for _, closer := range []io.Closer{c, l} {
		var op *net.OpError
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
		if err := closer.Close(); !errors.Is(err, net.ErrClosed) || !errors.As(err, &op) || op.Op != "close" {
			t.Errorf("%T: %v", closer, err)
		}
	}
	for _, closer := range []io.Closer{(*Conn)(nil), (*Listener)(nil), (*Mapping)(nil)} {
		if err := closer.Close(); !errors.Is(err, os.ErrInvalid) {
			t.Errorf("%T: %v", closer, err)
		}
	}
}

// TestCloseWriteEndsWrite checks that CloseWrite does not wait for a Write that is blocked, but ends
// it. The peer gets its data.
func TestCloseWriteEndsWrite(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFabric(t, kind)
				a, b := f.pair(Config{})
				signal(t, a, b)
				type result struct {
					n   int
					err error
				}
				wrote := make(chan result)
				go func() {
					n, err := a.Write(make([]byte, 1<<20))
					wrote <- result{n, err}
				}()
				synctest.Wait()
				_, resume := f.Pause() // no completion wakes the Write
				if err := a.CloseWrite(); err != nil {
					t.Error(err)
				}
				r := <-wrote
				resume()
				if !errors.Is(r.err, syscall.EPIPE) || r.n == 0 || r.n == 1<<20 {
					t.Error(r.n, r.err)
				}
				if got, err := io.ReadAll(b); len(got) != r.n || err != nil {
					t.Errorf("%d bytes of %d, %v", len(got), r.n, err)
				}
			})
		})
	}
}

// pair makes both ends of a connection, which the test closes.
func (f *fabric) pair(z Config) (a, b *Conn) {
	f.t.Helper()
	c1, c2, stop, err := f.pipe(z)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(stop)
	return c1.(*Conn), c2.(*Conn)
}

// TestBroken checks that a connection that breaks is ECONNRESET for both calls, after the data that
// had arrived, and not io.EOF; Close does not mind.
func TestBroken(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{})
		if _, err := a.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(b, got); err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			rest, err := io.ReadAll(b)
			if string(rest) != " words" {
				t.Errorf("%q", rest)
			}
			read <- err
		}()
		if err := a.conn.RC.Close(); err != nil { // as when the program dies
			t.Error(err)
		}
		var op *net.OpError
		if err := <-read; !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) || op.Op != "read" {
			t.Error(err)
		}
		if _, err := b.Write(got); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHalfClose checks that each end ends its data when it likes, and hears all of the other's.
func TestHalfClose(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{})
		question, answer := bytes.Repeat([]byte("?"), 300000), bytes.Repeat([]byte("!"), 400000)
		served := make(chan error, 1)
		go func() {
			got, err := io.ReadAll(b)
			if !bytes.Equal(got, question) {
				t.Errorf("%d bytes of the question", len(got))
			}
			if _, err := b.Write(answer); err != nil {
				t.Error(err)
			}
			served <- errors.Join(err, b.CloseWrite(), b.CloseWrite())
		}()
		if _, err := a.Write(question); err != nil {
			t.Error(err)
		}
		if err := a.CloseWrite(); err != nil {
			t.Error(err)
		}
		if _, err := a.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if got, err := io.ReadAll(a); err != nil || !bytes.Equal(got, answer) {
			t.Errorf("%d bytes of the answer, %v", len(got), err)
		}
		if err := errors.Join(<-served, a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if err := a.CloseWrite(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if err := a.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestReadAndLeave checks that a program that has read all and then only writes has informed its peer
// of the room, which a peer that waits to write more needs.
func TestReadAndLeave(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{RecvBuffer: leastBuffer, RecvQueue: leastQueue})
		const n = 40
		wrote := make(chan error, 1)
		go func() {
			for range n { // each is a message
				if _, err := a.Write([]byte{1}); err != nil {
					wrote <- err
					return
				}
			}
			wrote <- nil
		}()
		// The writer ends though nobody calls b any more, when 40 messages less those
		// that the peer may leave unread were read.
		if _, err := io.ReadFull(b, make([]byte, n-leastQueue/2)); err != nil {
			t.Error(err)
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}

// TestSilent checks that over iWARP an acceptor sends nothing before the dialling side has.
func TestSilent(t *testing.T) {
	s, l := testStream(true)
	s.silent = true
	s.settle()
	s.keepAlive()
	if n, err := s.write([]byte{1}); n != 0 || err != nil {
		t.Error(n, err)
	}
	if s.end(false); len(l.words) != 0 || s.delivered() {
		t.Error(l.words)
	}
	s.arrived(newWord(opSGL, 16))
	if s.settle(); len(l.words) != 2 || l.words[0].op() != opSGL || l.words[1] != newWord(opControl, ctrlShutdown) {
		t.Error(l.words)
	}
}

// TestStreamAllocs checks that neither sending nor receiving allocates.
func TestStreamAllocs(t *testing.T) {
	s, l := testStream(false)
	l.words = make([]word, 0, 1000)
	b := make([]byte, 1)
	if n := testing.AllocsPerRun(1000, func() {
		l.words = l.words[:0]
		s.arrived(newWord(opData, 1))
		_, _ = s.read(b)
		_, _ = s.write(b)
		s.settle()
	}); n != 0 {
		t.Error(n, "allocations")
	}
}

// TestWriteBehindClose checks that the first Write after the peer has closed succeeds, and the data
// that the peer sent before can be read, as over TCP; later Writes fail.
func TestWriteBehindClose(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{Mappings: 1})
		signal(t, a, b)
		// More than one poll of the receive queue takes.
		for range 3 * 16 {
			if _, err := b.Write([]byte{'a'}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		<-a.conn.RC.Done()
		if n, err := a.Write([]byte("more")); n != 4 || err != nil {
			t.Error(n, err)
		}
		if _, err := a.Write([]byte("and more")); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if _, err := a.WriteAt([]byte("more"), 0); !errors.Is(err, syscall.EPIPE) {
			t.Error(err)
		}
		if got, err := io.ReadAll(a); len(got) != 3*16 || err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if err := a.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestWordsBehindFailure checks that a send that fails is no reason to drop what arrived before,
// though its completion is polled first. After a violation nothing counts any more.
func TestWordsBehindFailure(t *testing.T) {
	s, _ := testStream(false)
	s.fail(syscall.ECONNRESET)
	s.arrived(newWord(opData, 3))
	s.arrived(newWord(opControl, ctrlDisconnect))
	if n, err := s.read(make([]byte, 9)); n != 3 || err != nil {
		t.Error(n, err)
	}
	if _, err := s.read(make([]byte, 9)); err != io.EOF {
		t.Error(err)
	}
	if !s.discard() || s.discard() {
		t.Error("not one Write succeeds behind the end")
	}
	s, _ = testStream(false)
	s.violate(ErrProtocol)
	s.arrived(newWord(opData, 3))
	if n, err := s.read(make([]byte, 9)); n != 0 || err != ErrProtocol {
		t.Error(n, err)
	}
}

// TestRemoved checks that all calls that wait say that the device was removed, whoever heard of it
// first. Without a connection manager, only a device that leaves its programs says so.
func TestRemoved(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		if f.over != nil && f.Host(0).Device(0).Kind() == rdmatest.RXE {
			return
		}
		a, b := f.pair(Config{})
		waits := []func() error{
			func() error { _, err := a.Read(make([]byte, 1)); return err },
			func() error { _, err := b.Read(make([]byte, 1)); return err }}
		if f.over == nil {
			l, err := f.listen(Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			waits = append(waits, func() error { _, err := l.Accept(); return err })
		} else {
			waits = waits[:1] // the good-bye of the end that notices first may reach the other before
		}
		conntest.Removed(t, f.Host(0).Device(0), waits...)
	})
}
