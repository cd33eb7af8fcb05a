package rsocket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// pair makes both ends of a connection, which the test closes.
func (f *fabric) pair(z Sizes) (a, b *Conn) {
	f.t.Helper()
	c1, c2, stop, err := f.pipe(z)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(stop)
	return c1.(*Conn), c2.(*Conn)
}

// TestBroken: a connection that breaks is ECONNRESET for both calls, after what had
// arrived, and not io.EOF; Close does not mind.
func TestBroken(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			a, b := f.pair(Sizes{})
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
			if err := a.rc.Close(); err != nil { // as when the program dies
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
}

// TestHalfClose: each end ends its data when it likes, and hears all of the other's.
func TestHalfClose(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			a, b := newFabric(t, kind).pair(Sizes{})
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
}

// TestReadAndLeave: a program that has read all and then only writes has told its peer of
// the room, which a peer that waits to write more needs.
func TestReadAndLeave(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			a, b := newFabric(t, kind).pair(Sizes{RecvBuffer: leastBuffer, RecvQueue: leastQueue})
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
}

// TestSilent: over iWARP an acceptor sends nothing before the dialling side has.
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

// TestStreamAllocs: neither sending nor receiving allocates.
func TestStreamAllocs(t *testing.T) {
	s, l := testStream(false)
	l.words = make([]word, 0, 1000)
	b := make([]byte, 1)
	if n := testing.AllocsPerRun(10, func() {
		l.words = l.words[:0]
		s.arrived(newWord(opData, 1))
		_, _ = s.read(b)
		_, _ = s.write(b)
		s.settle()
	}); n != 0 {
		t.Error(n, "allocations")
	}
}

// TestWriteBehindClose: the first Write after the peer has closed succeeds, and what the peer
// sent before can be read, as over TCP; later Writes fail.
func TestWriteBehindClose(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			a, b := newFabric(t, kind).pair(Sizes{Mappings: 1})
			signal(t, a, b)
			// More than one poll of the receive queue takes.
			for range 3 * recvBatch {
				if _, err := b.Write([]byte{'a'}); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			<-a.rc.Done()
			if n, err := a.Write([]byte("more")); n != 4 || err != nil {
				t.Error(n, err)
			}
			if _, err := a.Write([]byte("and more")); !errors.Is(err, syscall.EPIPE) {
				t.Error(err)
			}
			if _, err := a.WriteAt([]byte("more"), 0); !errors.Is(err, syscall.EPIPE) {
				t.Error(err)
			}
			if got, err := io.ReadAll(a); len(got) != 3*recvBatch || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err := a.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWordsBehindFailure: a send that fails is no reason to drop what arrived before, though
// its completion is polled first. After a violation nothing counts any more.
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
