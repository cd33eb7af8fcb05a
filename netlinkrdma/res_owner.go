package netlinkrdma

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
)

// Opt is a value that the kernel may leave out.
type Opt[T any] struct {
	Value T
	Known bool
}

// known is a value that was sent.
func known[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Owner tells who made an object.
type Owner struct {
	// TID is the thread that made the object, in the caller's PID namespace, where
	// iproute2 says pid. It is 0 of a kernel module's object, and when the kernel has
	// no number: the thread has ended, though its process may live on, or belongs to
	// another PID namespace. Go ends threads and moves goroutines between them, so the
	// objects of one Go process have several. [Owner.PID] finds the process.
	TID    uint32
	Kernel string // the kernel module, for instance ib_core; empty when a process made it
}

// PID is the process that the thread belongs to, in the caller's PID namespace. For
// the calling process itself it needs no /proc. The error matches [ErrNoProcess] when
// TID is 0 or the thread has ended meanwhile. Then nothing tells whose the object is;
// another object of the same context may.
func (o Owner) PID() (int, error) {
	if o.TID != 0 && isOwnThread(o.TID) {
		return os.Getpid(), nil
	}
	return o.PIDIn(os.DirFS("/proc"))
}

// PIDIn is PID by the files of a /proc, which must be of the caller's PID namespace.
func (o Owner) PIDIn(proc fs.FS) (int, error) {
	if o.TID == 0 {
		return 0, ErrNoProcess
	}
	status, err := fs.ReadFile(proc, fmt.Sprintf("%d/status", o.TID))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: thread %d: %w", ErrNoProcess, o.TID, err)
	}
	if err != nil {
		return 0, fmt.Errorf("netlinkrdma: find the process of thread %d: %w", o.TID, err)
	}
	for line := range strings.Lines(string(status)) {
		if number, ok := strings.CutPrefix(line, "Tgid:"); ok {
			return strconv.Atoi(strings.TrimSpace(number))
		}
	}
	return 0, fmt.Errorf("netlinkrdma: find the process of thread %d: its status has no Tgid", o.TID)
}

// parseCommon reads what objects of all kinds have.
func parseCommon(a *attributes, o *Owner, d *[]DriverAttr) {
	if a.typ == abi.RDMA_NLDEV_ATTR_DRIVER {
		*d = parseDriver(a)
		return
	}
	parseOwner(a, o)
}

func parseOwner(a *attributes, o *Owner) {
	switch a.typ {
	case abi.RDMA_NLDEV_ATTR_RES_PID:
		o.TID = a.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_KERN_NAME:
		o.Kernel = a.string()
	}
}
