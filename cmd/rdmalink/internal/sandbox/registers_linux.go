package sandbox

import (
	"slices"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/mmap"
)

// registers are the pages of an opening that processes store doorbells to by themselves. The
// model hears of a store when the page is looked at next: of two stores to the same place in
// between, it hears of the second. A tracer tells it of each store; then there is nothing to
// look at.
type registers struct {
	kernel *fakeverbs.Kernel

	mu    sync.Mutex // guards what follows
	pages []*registerPage
	stop  chan struct{}
	idle  sync.WaitGroup
}

// registerPage is one of them.
type registerPage struct {
	key  int64
	page *mmap.Region // nil: a tracer sees stores
	seen []uint64
}

// between is how long no page is looked at.
const between = 20 * time.Microsecond

// trap notes a page that a tracer watches.
func (r *registers) trap(key int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages = append(r.pages, &registerPage{key: key})
}

// add has a page looked at from now on.
func (r *registers) add(key int64, page *mmap.Region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages = append(r.pages, &registerPage{key, page, make([]uint64, page.Len()/8)})
	slices.SortFunc(r.pages, func(a, b *registerPage) int { return int(a.key - b.key) })
	if r.stop == nil {
		r.stop = make(chan struct{})
		r.idle.Go(r.watch)
	}
}

// has tells whether a page is known: a process may map it again.
func (r *registers) has(key int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.pages, func(p *registerPage) bool { return p.key == key })
}

// hasBelow tells whether a page with a smaller key is known.
func (r *registers) hasBelow(key int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.pages, func(p *registerPage) bool { return p.key < key })
}

func (r *registers) watch() {
	for {
		select {
		case <-r.stop:
			return
		case <-time.After(between):
		}
		r.look()
	}
}

// look tells the model of all stores since the last look. The first page is that of sends: a
// store to it is told after those to the others, because a program posts the receive for an
// answer before it sends the question.
func (r *registers) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range slices.Backward(r.pages) {
		p.look(r.kernel, func() {
			for _, other := range r.pages[i+1:] {
				other.look(r.kernel, func() {})
			}
		})
	}
}

// look has others be told first of what was stored elsewhere.
func (p *registerPage) look(k *fakeverbs.Kernel, others func()) {
	for i := range p.seen {
		word, err := p.page.Word64(8 * i)
		if err != nil {
			return // it is unmapped
		}
		if v := word.Load(); v != p.seen[i] {
			p.seen[i] = v
			others()
			k.Store(p.key, 8*i, 8, v)
		}
	}
}

// close looks once more, and then no more.
func (r *registers) close() {
	r.look()
	r.mu.Lock()
	stop := r.stop
	r.mu.Unlock()
	if stop != nil {
		close(stop)
		r.idle.Wait()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pages {
		if p.page != nil {
			_ = p.page.Close()
		}
	}
}
