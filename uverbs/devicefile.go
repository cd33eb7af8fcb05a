package uverbs

import (
	"sync"

	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// deviceFile is all that the process holds of the kernel for one device: the
// descriptor and the queues mapped through it. Every mapping pins the kernel's
// context, so the runtime's cleanup of a forgotten Device must unmap as well as
// close. It may: who still had a queue would keep its Device reachable.
type deviceFile struct {
	ioctl.File
	mu     sync.Mutex
	queues map[*mmap.Region]struct{}
}

func newDeviceFile(f ioctl.File) *deviceFile {
	return &deviceFile{File: f, queues: make(map[*mmap.Region]struct{})}
}

func (f *deviceFile) hold(r *mmap.Region) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues[r] = struct{}{}
}

func (f *deviceFile) release(r *mmap.Region) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.queues, r)
	return r.Close()
}

// abandon frees everything, for a Device that nobody can reach any more.
func (f *deviceFile) abandon() {
	for r := range f.queues {
		_ = r.Close() // nobody is left to tell
	}
	_ = f.Close()
}
