package msg

import (
	"runtime"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

// idleLink is a link over which nothing happens.
type idleLink struct{ link }

func (idleLink) PostRecv(wrs []verbs.RecvWR) (int, error) { return len(wrs), nil }
func (idleLink) register([]byte, verbs.Access) (memory, error) {
	return new(fakeMem), nil
}

// docs/messages.md tells what a connection takes that has nothing to say.
func TestIdleMemory(t *testing.T) {
	s, err := (&Config{EagerSize: 256, Window: 4}).shape()
	if err != nil {
		t.Fatal(err)
	}
	s.pool = new(Pool) // which has the pump
	least := uint64(1 << 62)
	for range 5 { // what others allocate meanwhile only adds
		least = min(least, allocated(func() {
			c := newConn(idleLink{}, 1, s, nil)
			if err := c.prepare(); err != nil {
				t.Fatal(err)
			}
			c.open(s.hello(), false)
		}))
	}
	if t.Logf("%d bytes", least); least > 9000 {
		t.Errorf("%d bytes, more than 9000", least)
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
