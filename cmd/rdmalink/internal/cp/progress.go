package cp

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// progress is a bar on a terminal. It counts the bytes written to it, and is erased at
// the end.
type progress struct {
	out   io.Writer
	name  string
	total int64
	done  atomic.Int64
	stop  func()
}

const (
	progressStep  = 200 * time.Millisecond
	progressWidth = 30
)

// newProgress shows a bar until stop is called, if the output is a terminal.
func newProgress(out io.Writer, name string, total int64) *progress {
	p := &progress{out: out, name: name, total: total, stop: func() {}}
	if cli.IsTerminal(out) {
		over := make(chan struct{})
		var shown sync.WaitGroup
		shown.Go(func() { p.show(over) })
		p.stop = func() { close(over); shown.Wait() }
	}
	return p
}

// Write implements [io.Writer].
func (p *progress) Write(b []byte) (int, error) {
	p.done.Add(int64(len(b)))
	return len(b), nil
}

func (p *progress) show(over <-chan struct{}) {
	tick := time.NewTicker(progressStep)
	defer tick.Stop()
	for start := time.Now(); ; {
		fmt.Fprint(p.out, "\r\x1b[K", p.line(time.Since(start)))
		select {
		case <-tick.C:
		case <-over:
			fmt.Fprint(p.out, "\r\x1b[K")
			return
		}
	}
}

// line returns the bar. after is the time since the start.
func (p *progress) line(after time.Duration) string {
	part := 1.0
	done := p.done.Load()
	if p.total > 0 {
		part = float64(done) / float64(p.total)
	}
	full := int(part * progressWidth)
	bar := strings.Repeat("=", full) + strings.Repeat(" ", progressWidth-full)
	rate := float64(done) / 1e6 / max(after.Seconds(), 1e-3)
	return fmt.Sprintf("%q [%s] %3.0f%% %.1f MB/s", p.name, bar, part*100, rate)
}
