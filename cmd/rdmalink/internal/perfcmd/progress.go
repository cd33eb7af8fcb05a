package perfcmd

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
)

// progress prints the state of a run in a line of the terminal, and erases the line
// before other output.
type progress struct {
	out  io.Writer // nil if the output is no terminal
	over chan struct{}

	mu     sync.Mutex
	state  string
	total  int64
	done   *perf.Progress // nil between sizes
	began  time.Time
	length time.Duration // of a run of which the time decides
	shown  bool
}

// progressStep is how often the line changes.
const progressStep = 500 * time.Millisecond

func (p *progress) init(run *session) {
	p.over = make(chan struct{})
	p.length = run.Time
	if cli.IsTerminal(run.Stderr) {
		p.out = run.Stderr
	}
	p.state = "waiting for a client"
	if run.host != "" {
		p.state = "connecting to " + run.host
	}
}

// show draws the line until the end.
func (p *progress) show() {
	if p.out == nil {
		return
	}
	tick := time.NewTicker(progressStep)
	defer tick.Stop()
	for {
		select {
		case <-p.over:
			return
		case <-tick.C:
			p.draw()
		}
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := cli.Printable(p.state)
	switch {
	case p.done == nil:
	case p.total > 0:
		text += fmt.Sprintf(": %d of %d messages, %d %%", p.done.Done(), p.total, 100*p.done.Done()/p.total)
	default:
		text += fmt.Sprintf(": %.0f of %.0f s, %d messages", time.Since(p.began).Seconds(), p.length.Seconds(), p.done.Done())
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", text)
	p.shown = true
}

// next begins with a size.
func (p *progress) next(size int, total int64, done *perf.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.total, p.done, p.began = fmt.Sprintf("%d bytes", size), total, done, time.Now()
}

// rest says that a size is done.
func (p *progress) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.done = "waiting for the peer", nil
}

// clear takes the line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

func (p *progress) end() {
	close(p.over)
	p.clear()
}
