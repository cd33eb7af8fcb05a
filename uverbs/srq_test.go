package uverbs_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func (w *roce) ksrq() *fakerxe.SRQ { return fakerxe.SRQOf(w.k.SRQs()[0]) }

// postSRQ posts n receives, with ids from first on.
func (w *roce) postSRQ(t testing.TB, first, n uint64) {
	t.Helper()
	for id := first; id < first+n; id++ {
		if _, err := w.srq.PostRecv([]verbs.RecvWR{{WRID: id}}); err != nil {
			t.Fatal(err)
		}
	}
}

func takeSRQ(t testing.TB, ksrq *fakerxe.SRQ, first, n uint64) {
	t.Helper()
	for id := first; id < first+n; id++ {
		if r, ok := ksrq.TakeRecv(); !ok || r.WrId != id {
			t.Fatalf("receive %d, %v, want %d", r.WrId, ok, id)
		}
	}
}

// TestResizeSRQ makes an SRQ larger and smaller again, while it holds receives.
func TestResizeSRQ(t *testing.T) {
	w := newRoCE(t)
	id, live := uint64(0), 0
	for _, entries := range []int{100, 7, 31, 3} {
		room := uint64(w.srq.MaxWR())
		w.postSRQ(t, id, room)
		takeSRQ(t, w.ksrq(), id, room-2)
		w.postSRQ(t, id+room, 1)
		if err := w.srq.Resize(entries); err != nil {
			t.Fatal(err)
		}
		if got := w.srq.MaxWR(); int(got) < entries || int(got) > 2*entries || got != w.k.SRQs()[0].MaxWR {
			t.Errorf("room for %d, asked for %d, the kernel has %d", got, entries, w.k.SRQs()[0].MaxWR)
		}
		if n := regions.Live(); live != 0 && n != live {
			t.Errorf("%d regions, %d before", n, live)
		}
		live = regions.Live()
		takeSRQ(t, w.ksrq(), id+room-2, 3)
		w.postSRQ(t, id+room+1, 1)
		takeSRQ(t, w.ksrq(), id+room+1, 1)
		id += room + 2
	}
}

// TestResizeSRQFails fails before and after the kernel has resized.
func TestResizeSRQFails(t *testing.T) {
	w := newRoCE(t)
	alive, live := w.k.Alive(), regions.Live()
	w.postSRQ(t, 0, 5)
	if err := w.srq.Resize(3); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("less than is posted: %v", err)
	}
	w.k.Fail("MODIFY_SRQ", 0, syscall.ENOMEM)
	if err := w.srq.Resize(100); !errors.Is(err, syscall.ENOMEM) || w.srq.MaxWR() != 7 {
		t.Errorf("%v, room for %d", err, w.srq.MaxWR())
	}
	w.postSRQ(t, 5, 1)
	takeSRQ(t, w.ksrq(), 0, 6)
	w.k.Fail("MMAP", 0, syscall.ENOMEM)
	if err := w.srq.Resize(100); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
	if n, err := w.srq.PostRecv([]verbs.RecvWR{{}}); n != 0 || err == nil || !strings.Contains(err.Error(), "lost when it was resized") {
		t.Errorf("%d receives, %v", n, err)
	}
	if !slices.Equal(w.k.Alive(), alive) || regions.Live() != live {
		t.Errorf("%q and %d regions, before %q and %d", w.k.Alive(), regions.Live(), alive, live)
	}
	if err := w.srq.Close(); err != nil {
		t.Error(err)
	}
}

// TestSRQLimit checks that the event is raised once, when fewer receives than the limit are left.
func TestSRQLimit(t *testing.T) {
	w := newRoCE(t)
	w.postSRQ(t, 0, 5)
	live := regions.Live()
	if err := w.srq.SetLimit(4); err != nil || w.srq.MaxWR() != 7 || regions.Live() != live {
		t.Fatalf("%v, room for %d, %d regions, %d before", err, w.srq.MaxWR(), regions.Live(), live)
	}
	takeSRQ(t, w.ksrq(), 0, 3)
	want := uverbs.AsyncEvent{Type: verbs.EventSRQLimitReached, SRQ: w.srq}
	if got, err := w.dev.AsyncEvent(context.Background()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if a := must[*verbs.SRQAttr](t)(w.srq.Query()); *a != (verbs.SRQAttr{MaxWR: 7, MaxSGE: 1}) {
		t.Errorf("%+v", a)
	}
	w.k.Async(1, uint32(verbs.EventPortErr))
	if got, err := w.dev.AsyncEvent(context.Background()); err != nil || got.Type != verbs.EventPortErr {
		t.Errorf("a second event: %+v, %v", got, err)
	}
}

// TestResizeSRQWhilePosted resizes while others post and the kernel takes: each
// receive arrives once, in order.
func TestResizeSRQWhilePosted(t *testing.T) {
	w := newRoCE(t)
	const total = 10000
	ksrq := w.ksrq()
	tick := make(chan struct{}, 1)
	var others sync.WaitGroup
	others.Go(func() {
		n := 10
		for range tick {
			if err := w.srq.Resize(n); err != nil && !errors.Is(err, syscall.EINVAL) { // too much is posted
				t.Error(err)
			}
			n = 10 + (n+17)%50
		}
	})
	others.Go(func() {
		for id := uint64(0); id < total; {
			n, err := w.srq.PostRecv([]verbs.RecvWR{{WRID: id}})
			if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				t.Error(err)
				return
			}
			if id += uint64(n); n == 0 {
				runtime.Gosched()
			}
		}
	})
	err := within(t, "the kernel", run(func() error {
		for id := uint64(0); id < total; {
			r, ok := ksrq.TakeRecv()
			if !ok {
				runtime.Gosched()
				continue
			}
			if r.WrId != id {
				t.Errorf("receive %d, want %d", r.WrId, id)
				return nil
			}
			id++
			select {
			case tick <- struct{}{}:
			default:
			}
		}
		return nil
	}))
	close(tick)
	if err != nil {
		t.Error(err)
	}
	others.Wait()
}
