package rsocket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
)

// signal sends a byte and waits until the other end has read it.
func signal(t *testing.T, from, to *Conn) {
	t.Helper()
	read := make(chan error, 1)
	go func() { // while it gives credits
		_, err := io.ReadFull(to, make([]byte, 1))
		read <- err
	}()
	if _, err := from.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
}

func mapped(t *testing.T, c *Conn, b []byte, offset int64) *Mapping {
	t.Helper()
	m, err := c.Map(b, offset)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMap checks that a write to a mapping arrives before data that is written afterwards, across
// mappings that adjoin, from both ends.
func TestMap(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		c1, c2 := f.pair(Config{Mappings: 2, SendBuffer: leastBuffer})
		for _, ends := range [][2]*Conn{{c1, c2}, {c2, c1}} {
			owner, writer := ends[0], ends[1]
			low, high := make([]byte, 10000), make([]byte, 5000)
			mapped(t, owner, low, 1<<40)
			mapped(t, owner, high, 1<<40+int64(len(low)))
			signal(t, owner, writer)
			want := make([]byte, len(low)+len(high))
			for _, n := range []int{len(want), 9000, 64, 1, 0} {
				at := (len(want) - n) / 2
				for i := range n {
					want[at+i] = byte(n + i/7)
				}
				if wrote, err := writer.WriteAt(want[at:][:n], 1<<40+int64(at)); wrote != n || err != nil {
					t.Fatal(wrote, err)
				}
				signal(t, writer, owner)
				if !bytes.Equal(low, want[:len(low)]) || !bytes.Equal(high, want[len(low):]) {
					t.Errorf("%d bytes at %d do not lie there", n, at)
				}
			}
		}
	})
}

// TestMapNot checks that memory that can't be mapped and writes to unmapped offsets are refused.
func TestMapNot(t *testing.T) {
	a, b := newFabric(t, rdmatest.RXE).pair(Config{Mappings: 1})
	memory := make([]byte, 100)
	for _, test := range []struct {
		b      []byte
		offset int64
	}{{memory, -1}, {nil, 0}} {
		var op *net.OpError
		if _, err := a.Map(test.b, test.offset); !errors.Is(err, syscall.EINVAL) || !errors.As(err, &op) || op.Op != "map" {
			t.Error(err)
		}
	}
	m := mapped(t, a, memory, 7)
	if _, err := a.Map(memory, 500); !errors.Is(err, syscall.ENOMEM) {
		t.Error("the table has one entry:", err)
	}
	signal(t, a, b)
	for off, want := range map[int64]int{6: 0, 107: 0, 106: 1, 98: 9} {
		if n, err := b.WriteAt(make([]byte, 10), off); n != want || !errors.Is(err, ErrNotMapped) {
			t.Errorf("at %d: %d, %v", off, n, err)
		}
	}
	if _, err := b.WriteAt([]byte{1}, -1); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	// The place of a mapping that is closed serves the next.
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	m = mapped(t, a, memory, 500)
	signal(t, a, b)
	if n, err := b.WriteAt([]byte{5}, 7); n != 0 || !errors.Is(err, ErrNotMapped) {
		t.Errorf("where it was: %d, %v", n, err)
	}
	if n, err := b.WriteAt([]byte{5}, 501); n != 1 || err != nil {
		t.Errorf("where it is: %d, %v", n, err)
	}
	signal(t, b, a)
	if memory[1] != 5 {
		t.Error("not written")
	}
	if err := errors.Join(b.Close(), a.Close()); err != nil {
		t.Error(err)
	}
	if err := m.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := a.Map(memory, 0); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := b.WriteAt(memory, 501); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestMapNone checks that a peer without a table gets no mappings.
func TestMapNone(t *testing.T) {
	a, _ := newFabric(t, rdmatest.SIW).pair(Config{})
	if _, err := a.Map(make([]byte, 1), 0); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
}

// TestMapCredits checks that each mapping takes a credit, which comes back when the peer has heard of
// it. One that can't be sent waits for that, or for the deadline, and leaves nothing behind.
func TestMapCredits(t *testing.T) {
	anywhere(t, func(t *testing.T, f *fabric) {
		a, b := f.pair(Config{Mappings: 1, RecvQueue: leastQueue})
		memory := make([]byte, 8)
		for range 4 * leastQueue {
			signal(t, a, b)
			m := mapped(t, a, memory, 0)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range leastQueue { // more than there are credits for, since b does nothing
			if err := a.SetWriteDeadline(time.Now().Add(time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			m, err := a.Map(memory, 0)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Map(memory, 0); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("no credit is left:", err)
		}
		if err := a.SetWriteDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		read := make(chan error, 1)
		go func() {
			_, err := b.Read(make([]byte, 1))
			read <- err
		}()
		mapped(t, a, memory, 9)
		if _, err := a.Write([]byte{1}); err != nil {
			t.Error(err)
		}
		if err := <-read; err != nil {
			t.Error(err)
		}
		if _, err := b.WriteAt([]byte{1}, 9); err != nil {
			t.Error(err)
		}
	})
}
