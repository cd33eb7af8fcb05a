package uverbs

import (
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// deviceFile is all that the process holds of the kernel for one device: the
// descriptor and the queues mapped through it. Every mapping pins the kernel's
// context, so the runtime's cleanup of a forgotten Device must unmap as well as
// close. That is safe, because any queue in use keeps its Device reachable.
type deviceFile struct {
	ioctl.File
	calls  sync.RWMutex // held for reading by calls, for writing by Close
	closed bool
	mu     sync.Mutex                   // guards what follows
	memory map[io.Closer]struct{}       // mapped, or allocated for queues
	pins   map[*runtime.Pinner]struct{} // of registered Go memory; a Pinner forgotten while it pins ends the process
}

func newDeviceFile(f ioctl.File) *deviceFile {
	return &deviceFile{File: f, memory: make(map[io.Closer]struct{}), pins: make(map[*runtime.Pinner]struct{})}
}

// Ioctl refuses calls after Close, when the descriptor's number may be another
// file's.
func (f *deviceFile) Ioctl(r *ioctl.Request) error {
	f.calls.RLock()
	defer f.calls.RUnlock()
	if f.closed {
		return verbs.ErrClosed
	}
	return f.File.Ioctl(r)
}

func (f *deviceFile) hold(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.memory[c] = struct{}{}
}

func (f *deviceFile) release(c io.Closer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.memory, c)
	return c.Close()
}

// pin holds b in place until unpin.
func (f *deviceFile) pin(b []byte) *runtime.Pinner {
	p := new(runtime.Pinner)
	p.Pin(&b[0])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pins[p] = struct{}{}
	return p
}

func (f *deviceFile) unpin(p *runtime.Pinner) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pins, p)
	p.Unpin()
}

// Close lets go of the kernel: of queues first, for a mapping keeps the kernel's
// context alive. The objects have returned theirs; what a provider mapped for the
// whole device is still there.
func (f *deviceFile) Close() error {
	f.calls.Lock()
	defer f.calls.Unlock()
	f.closed = true
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for c := range f.memory {
		errs = append(errs, c.Close())
	}
	clear(f.memory)
	errs = append(errs, f.File.Close())
	for p := range f.pins {
		p.Unpin()
	}
	clear(f.pins)
	return errors.Join(errs...)
}

// abandon frees everything, for a Device that nobody can reach any more.
func (f *deviceFile) abandon() { _ = f.Close() } // nobody is left to tell
