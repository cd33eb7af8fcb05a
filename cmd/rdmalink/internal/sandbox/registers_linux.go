package sandbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakeefa "github.com/goverbs/goverbs/internal/fakeverbs/efa"
	fakeerdma "github.com/goverbs/goverbs/internal/fakeverbs/erdma"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/mmap"
)

// registers are the pages of an open device to which processes write doorbells without a
// system call. The model sees a store when the pages are polled next; of two stores to the
// same place between two polls it sees only the second. With a tracer it sees every store,
// and the pages are not polled.
type registers struct {
	kernel *fakeverbs.Kernel
	polled sync.Map // of *registerPage, by key; the model looks here while mu is held

	mu    sync.Mutex // guards the fields below
	pages []*registerPage
}

// registerPage is one of them.
type registerPage struct {
	key  int64
	page *mmap.Region // nil: a tracer sees stores
	seen []byte       // the content at the last poll; written with both locks

	mu      sync.Mutex // guards the fields below; held for moments only
	passing bool       // a store is being passed to the model
	at      int        // where it was
	v       uint64
}

// The interval between two polls is busy, or quiet after that many polls without a change.
const (
	busy     = 20 * time.Microsecond
	quiet    = 100 * time.Microsecond
	patience = 50
)

// trap notes a page that a tracer watches.
func (r *registers) trap(key int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pages = append(r.pages, &registerPage{key: key})
}

// add makes a page one of those that are polled.
func (r *registers) add(key int64, page *mmap.Region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &registerPage{key: key, page: page, seen: make([]byte, page.Len())}
	r.pages = append(r.pages, p)
	r.polled.Store(key, p)
	slices.SortFunc(r.pages, func(a, b *registerPage) int { return int(a.key - b.key) })
}

// has reports whether a page is known: a process may map it again.
func (r *registers) has(key int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.pages, func(p *registerPage) bool { return p.key == key })
}

// hasBelow reports whether a page with a smaller key is known.
func (r *registers) hasBelow(key int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.pages, func(p *registerPage) bool { return p.key < key })
}

// watch polls the pages of all openings until the sandbox ends. Go's timers take a millisecond in an idle
// process, so watch sleeps on a thread of its own, which ends with it.
func (s *supervisor) watch() {
	runtime.LockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // nanoseconds, of 50 µs
	shortSlice()
	for same := 0; !s.ended.Load(); same++ {
		switch {
		case same > patience:
			pause := unix.NsecToTimespec(int64(quiet))
			_ = unix.Nanosleep(&pause, nil)
		default:
			sleep(busy)
		}
		if s.look() {
			same = 0
		}
	}
}

// shortSlice makes the kernel, from Linux 6.12 on, prefer the calling thread to programs that poll without a pause: it
// runs for moments only.
func shortSlice() {
	if a, err := unix.SchedGetAttr(0, 0); err == nil {
		a.Runtime = uint64(100 * time.Microsecond)
		_ = unix.SchedSetAttr(0, a, 0)
	}
}

// look passes all stores since the last poll to the model, and reports whether there were
// any. The first page is that of sends. Its stores come last, because a program posts the
// receive for an answer before it sends the question.
func (r *registers) look() (any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range slices.Backward(r.pages) {
		found := p.look(r.kernel, func() {
			for _, other := range r.pages[i+1:] {
				other.look(r.kernel, func() {})
			}
		})
		any = any || found
	}
	return any
}

// look passes stores to other pages on first.
func (p *registerPage) look(k *fakeverbs.Kernel, others func()) (any bool) {
	if p.page == nil || bytes.Equal(p.page.Bytes(), p.seen) { // most often nothing is new, and this is quick
		return false
	}
	for at := 0; at < len(p.seen); at += 8 {
		word, err := p.page.Word64(at)
		if err != nil {
			return any // it is unmapped
		}
		if v := word.Load(); v != binary.NativeEndian.Uint64(p.seen[at:]) {
			p.take(word, at, v)
			others()
			k.Store(p.key, at, 8, v)
			p.passed()
			any = true
		}
	}
	return any
}

// take begins to pass a store on.
func (p *registerPage) take(word *atomic.Uint64, at int, v uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A queue pair may have the number of one that was destroyed, and then its first doorbell is that
	// one's. No doorbell is the complement of another, so the same store shows again.
	if word.CompareAndSwap(v, ^v) {
		binary.NativeEndian.PutUint64(p.seen[at:], ^v)
	} else {
		binary.NativeEndian.PutUint64(p.seen[at:], v)
	}
	p.passing, p.at, p.v = true, at, v
}

func (p *registerPage) passed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passing = false
}

// unseen returns the store to a register that has not reached the model.
func (r *registers) unseen(key int64, at int) (v uint64, ok bool) {
	if p, ok := r.polled.Load(key); ok {
		return p.(*registerPage).unseen(at)
	}
	return 0, false
}

func (p *registerPage) unseen(at int) (v uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	word, err := p.page.Word64(at)
	if err != nil {
		return 0, false // it is unmapped
	}
	if v = word.Load(); v != binary.NativeEndian.Uint64(p.seen[at:]) {
		return v, true
	}
	return p.v, p.passing && p.at == at
}

// close polls a last time.
func (r *registers) close() {
	r.look()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pages {
		if p.page != nil {
			p.mu.Lock()
			_ = p.page.Close()
			p.mu.Unlock()
		}
	}
	r.pages = nil
}

// opened records an open device, so that the errors of its programs are reported at the
// end.
func (s *supervisor) opened(of *verbsDevice, d *device) {
	// Polled registers are reported late, see registers.
	if o := fakeerdma.OptionsOf(d.kernel); o != nil {
		o.Late, o.OldRecords = !s.trap, true
		if s.old {
			o.NoAtomics, o.SDBType, o.SDBOffset = true, 1, 5
		}
	}
	if o := fakemlx5.OptionsOf(d.kernel); o != nil {
		o.Late, o.OldBytes = !s.trap, true
		o.StaticUARs, o.CQEVersion0, o.InlineHeaders = s.old, s.old, s.old
	}
	if o := fakeefa.OptionsOf(d.kernel); o != nil {
		o.Late, o.OldBytes = !s.trap, true
		if s.old {
			o.Kernel, o.SubCQs, o.MaxTxBatch, o.MinSQWR = fakeefa.Linux61, 2, 16, 16
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of.opened = d.kernel
	s.openings = append(slices.Clone(s.openings), d)
	if s.recorder != nil {
		s.recorder.Attach(d.kernel)
	}
}

func (s *supervisor) forget(d *device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openings = slices.DeleteFunc(slices.Clone(s.openings), func(other *device) bool { return other == d })
}

// look passes all stores so far to the devices, and reports whether there were any. A card would have seen them before
// the call that the kernel carries out next.
func (s *supervisor) look() (any bool) {
	s.mu.Lock()
	openings := s.openings
	s.mu.Unlock()
	for _, d := range openings {
		any = d.registers.look() || any
	}
	return any
}

// violations returns an error that names each misuse of a device, or nil.
func (s *supervisor) violations() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var different []string
	times := make(map[string]int)
	hosts := s.hosts
	if s.fabric != nil {
		hosts = s.fabric.all()
	}
	for _, m := range hosts {
		for _, d := range m.devices {
			if d.opened == nil {
				continue
			}
			for _, v := range d.opened.Violations() {
				v = d.Name + ": " + v
				if times[v]++; times[v] == 1 {
					different = append(different, v)
				}
			}
		}
	}
	if len(different) == 0 {
		return nil
	}
	for i, v := range different {
		if times[v] > 1 {
			different[i] = fmt.Sprintf("%s (%d times)", v, times[v])
		}
	}
	return fmt.Errorf("a device was used as it must not be:\n%s", strings.Join(different, "\n"))
}
