package rsocket

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestCloseGivesUp: Close waits 10 seconds for a machine that takes nothing, says then that
// its time is over, and leaves nothing behind. The test has the 10 seconds pass.
func TestCloseGivesUp(t *testing.T) {
	f := newFabric(t, rdmatest.RXE) // over iWARP a send has completed once it is on its way
	a, b := f.pair(Sizes{})
	stuck, resume := f.Pause()
	defer resume()
	if _, err := a.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	<-stuck
	closed := make(chan error)
	start := time.Now()
	go func() { closed <- a.Close() }()
	d := &a.closer.deadline
	var at time.Time
	for end := start.Add(time.Minute); at.IsZero() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		d.mu.Lock()
		at = d.at
		d.mu.Unlock()
	}
	if at.Before(start.Add(10*time.Second)) || at.After(time.Now().Add(10*time.Second)) {
		t.Errorf("Close gives up after %v", at.Sub(start))
	}
	select {
	case err := <-closed:
		t.Fatal("Close waited for nothing:", err)
	default:
	}
	d.set(time.Now())
	err := <-closed
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Error(err)
	}
	if again := a.Close(); again != err {
		t.Error("Close again:", again)
	}
	if _, err := b.Read(make([]byte, 9)); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}
