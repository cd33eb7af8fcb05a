package msg

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/goverbs/goverbs/rdmatest"
)

// pairWith runs a test in a bubble, with a world that takes its steps by itself.
func pairWith(t *testing.T, window int, test func(t *testing.T, a, b *Conn)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := (&Config{EagerSize: 64, Window: window, MaxMessage: 1000}).shape()
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, s)
		w.open()
		stop := w.run()
		defer stop()
		test(t, w.ends[0].conn, w.ends[1].conn)
	})
}

func receiveOne(t *testing.T, c *Conn, want int) {
	t.Helper()
	m, err := c.Recv(t.Context())
	if err != nil || len(m.Bytes()) != want {
		t.Fatal(m, err)
	}
	m.Release()
}

// TestShutdownWaitsForLarge checks that Shutdown waits until the peer has read all large messages.
// Close leaves that to the background.
func TestShutdownWaitsForLarge(t *testing.T) {
	pairWith(t, 8, func(t *testing.T, a, b *Conn) {
		if err := a.Send(t.Context(), make([]byte, 900)); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		down := make(chan error, 1)
		go func() { down <- a.Shutdown(t.Context()) }()
		synctest.Wait()
		if len(down) > 0 {
			t.Fatal("it did not wait:", <-down)
		}
		receiveOne(t, b, 900)
		if err := <-down; err != nil {
			t.Error(err)
		}
		if err := b.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLargeMessagesUnderWay checks that the number of large messages that the peer has not read is
// limited.
func TestLargeMessagesUnderWay(t *testing.T) {
	pairWith(t, 4*rendezvous, func(t *testing.T, a, b *Conn) {
		for range rendezvous {
			if err := a.Send(t.Context(), make([]byte, 900)); err != nil {
				t.Fatal(err)
			}
		}
		sent := make(chan error, 1)
		go func() { sent <- a.Send(t.Context(), make([]byte, 901)) }()
		synctest.Wait()
		if len(sent) > 0 {
			t.Fatal("it did not wait:", <-sent)
		}
		for range rendezvous {
			receiveOne(t, b, 900)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		receiveOne(t, b, 901)
		bothClose(t, a, b)
	})
}

// TestUnsignaledMessagesKeepNoBuffers checks that the program can have a window of buffers, no matter
// how many unsignaled messages keep theirs.
func TestUnsignaledMessagesKeepNoBuffers(t *testing.T) {
	s, err := (&Config{EagerSize: 64, Window: 32}).shape()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, s)
	w.open()
	a, b := w.ends[0].conn, w.ends[1].conn
	for sent := 1; sent <= 12; sent++ {
		if err := a.Send(t.Context(), []byte("hello")); err != nil {
			t.Fatal(err)
		}
		w.settle()
		m, err := b.Recv(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
		if free, quiet := len(a.small), sent%4; free != s.window+3-quiet {
			t.Errorf("%d buffers are free after %d messages", free, sent)
		}
	}
}

// TestTooLong checks that the sender can ask for the peer's limit, and the error of a longer message
// names both numbers.
func TestTooLong(t *testing.T) {
	newFabric(t, rdmatest.RXE)
	cfg := small
	cfg.MaxMessage = 5000
	a, _ := connect(t, &cfg)
	if n := a.MaxMessage(); n != 5000 {
		t.Error(n)
	}
	err := a.Send(t.Context(), make([]byte, 5001))
	if !errors.Is(err, ErrTooLong) || !strings.Contains(err.Error(), "5001 bytes") || !strings.Contains(err.Error(), "accepts 5000") {
		t.Error(err)
	}
}
