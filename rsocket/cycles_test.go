package rsocket

import (
	"io"
	"net"
	"testing"

	"github.com/goverbs/goverbs/internal/conntest"
	"github.com/goverbs/goverbs/rdmatest"
)

// TestCycles connects, talks and closes, again and again, over each kind of device: no
// goroutine and no memory is left.
func TestCycles(t *testing.T) {
	for _, kind := range rdmatest.Kinds {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFabric(t, kind)
			l, err := Listen("rsocket", fabricHost+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			conntest.Cycles(t, func() { f.cycle(l) })
		})
	}
}

// cycle is the life of a connection.
func (f *fabric) cycle(l net.Listener) {
	f.t.Helper()
	said := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
		}
		if err == nil {
			err = c.Close()
		}
		said <- err
	}()
	c, err := Dial("rsocket", l.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	text := make([]byte, 5)
	if _, err = c.Write([]byte("hello")); err == nil {
		_, err = io.ReadFull(c, text)
	}
	if err != nil || string(text) != "hello" {
		f.t.Fatalf("%q, %v", text, err)
	}
	if err := c.Close(); err != nil {
		f.t.Error(err)
	}
	if err := <-said; err != nil {
		f.t.Error(err)
	}
}
