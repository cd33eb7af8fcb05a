package msg

import (
	"runtime"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
)

// idleLink is a link over which nothing happens.
type idleLink struct{ link }

func (idleLink) PostRecv(wrs []uverbs.RecvWR) (int, error) { return len(wrs), nil }
func (idleLink) register([]byte, uverbs.Access) (memory, error) {
	return new(fakeMem), nil
}

// docs/messages.md tells what a connection takes that has nothing to say.
func TestIdleMemory(t *testing.T) {
	s, err := (&Config{EagerSize: 256, Window: 4}).shape()
	if err != nil {
		t.Fatal(err)
	}
	s.pool = new(Pool) // which has the pump
	const conns = 1000
	var kept [conns]*Conn
	bytes := allocated(func() {
		for i := range kept {
			kept[i] = newConn(idleLink{}, uint32(i), s, nil)
			if err := kept[i].prepare(); err != nil {
				t.Fatal(err)
			}
			kept[i].open(s.hello(), false)
		}
	})
	each := int(bytes) / conns
	t.Logf("%d bytes a connection", each)
	if most := 9000; each > most {
		t.Errorf("%d bytes a connection, more than %d", each, most)
	}
	runtime.KeepAlive(kept)
}

// allocated is how many bytes stay allocated when f has returned.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return after.HeapAlloc - before.HeapAlloc
}
