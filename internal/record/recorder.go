package record

import (
	"fmt"
	"io"
	"sync"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Recorder writes a recording. Its methods may be called concurrently.
type Recorder struct {
	mu       sync.Mutex
	w        io.Writer
	openings int
	err      error
}

// New returns a Recorder that writes to w.
func New(w io.Writer) *Recorder { return &Recorder{w: w} }

// decoders are those of each driver that there is a model of.
var decoders = map[uint32]func(*fakeverbs.Crossing) (*line, bool){
	abi.RDMA_DRIVER_ERDMA: erdmaLine, abi.RDMA_DRIVER_MLX5: mlx5Line,
	abi.RDMA_DRIVER_RXE: rxeLine, abi.RDMA_DRIVER_SIW: siwLine,
}

// Attach has k's requests and crossings recorded. An observer that k has already is called first, so its
// changes are recorded too. Call Attach before k is used.
func (r *Recorder) Attach(k *fakeverbs.Kernel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.openings++
	o := &opening{r: r, n: r.openings, decode: decoders[k.Driver()]}
	before := k.Cross
	k.Cross = func(c *fakeverbs.Crossing) {
		if before != nil {
			before(c)
		}
		if l, ok := o.decode(c); ok {
			o.write(l)
		}
	}
	k.Asked = func(call string, q *ioctl.Request) { o.write(requestLine(k.Driver(), call, q)) }
}

// Err returns the first error of writing.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// opening is an open file, with a number of its own.
type opening struct {
	r      *Recorder
	n      int
	decode func(*fakeverbs.Crossing) (*line, bool)
}

func (o *opening) write(l *line) {
	o.r.mu.Lock()
	defer o.r.mu.Unlock()
	if _, err := fmt.Fprintf(o.r.w, "%d %s\n", o.n, l.text()); err != nil && o.r.err == nil {
		o.r.err = err
	}
}
