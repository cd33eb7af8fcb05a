package rsocket

import (
	"errors"
	"fmt"
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
			newFabric(t, kind)
			l, err := Listen("rsocket", fabricHost+":0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			conntest.Cycles(t, 1, func() error { return cycle(l) })
		})
	}
}

// cycle is the life of a connection.
func cycle(l net.Listener) error {
	said := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(c, c)
			err = errors.Join(err, c.Close())
		}
		said <- err
	}()
	c, err := Dial("rsocket", l.Addr().String())
	if err != nil {
		return err
	}
	text := make([]byte, 5)
	if _, err = c.Write([]byte("hello")); err == nil {
		_, err = io.ReadFull(c, text)
	}
	if err == nil && string(text) != "hello" {
		err = fmt.Errorf("%q came back", text)
	}
	return errors.Join(err, c.Close(), <-said)
}
