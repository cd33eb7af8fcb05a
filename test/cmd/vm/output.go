//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/goverbs/goverbs/test/gotest"
)

// A demux cuts a batch's output into the runs and has each read by test2json.
type demux struct {
	ctx  context.Context
	p    *printer
	line []byte
	pkg  string
	cmd  *exec.Cmd
	in   io.WriteCloser
	read chan struct{}
}

func (d *demux) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			d.line = append(d.line, rest...)
			break
		}
		line := append(d.line, rest[:i+1]...)
		rest, d.line = rest[i+1:], nil
		if err := d.take(line); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func (d *demux) take(line []byte) error {
	if pkg, ok := bytes.CutPrefix(line, []byte(beginMark)); ok && d.cmd == nil {
		return d.begin(strings.TrimSpace(string(pkg)))
	}
	if code, ok := bytes.CutPrefix(line, []byte(endMark)); ok && d.cmd != nil {
		if strings.TrimSpace(string(code)) != "0" {
			d.p.fail(d.pkg)
		}
		return d.end()
	}
	if d.cmd == nil {
		if text := strings.TrimSpace(string(line)); text != "" {
			d.p.event(gotest.Event{Action: "output", Output: text + "\n"})
		}
		return nil
	}
	_, err := d.in.Write(line)
	return err
}

func (d *demux) begin(pkg string) error {
	d.pkg = pkg
	d.cmd = exec.CommandContext(d.ctx, "go", "tool", "test2json", "-t", "-p", pkg)
	d.cmd.Stderr = os.Stderr
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := d.cmd.Start(); err != nil {
		return fmt.Errorf("start go tool test2json: %w", err)
	}
	d.read = make(chan struct{})
	go func() {
		defer close(d.read)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				// Whether the package passed is said once, of all its runs.
				e := gotest.Parse(strings.TrimRight(line, "\n"))
				if said := strings.TrimSpace(e.Output); e.Test != "" || e.Action == "output" && said != "" && said != "PASS" {
					d.p.event(e)
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return nil
}

func (d *demux) end() error {
	d.in.Close()
	<-d.read
	err := d.cmd.Wait()
	d.cmd = nil
	return err
}

// close ends a run that was cut off.
func (d *demux) close(fine bool) error {
	if d.cmd == nil {
		return nil
	}
	if len(d.line) > 0 {
		d.in.Write(append(d.line, '\n'))
	}
	err := d.end()
	if fine && err == nil {
		err = errors.New("the output of the last run was cut off")
	}
	return err
}

// A printer prints the events of all guests and keeps those that are needed afterwards.
type printer struct {
	to            io.Writer
	json, verbose bool

	mu      sync.Mutex
	results gotest.Results
	kept    map[string][]gotest.Event // how the tests ended, by package
	failed  map[string]bool           // packages
}

// event handles an event of a test binary. It keeps the events that end tests.
func (p *printer) event(e gotest.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Ended() && e.Top() {
		if e.Action == "skip" {
			why := p.results.Output(e.Package + " " + e.Test)
			p.kept[e.Package] = append(p.kept[e.Package], gotest.Event{Action: "output", Package: e.Package, Test: e.Test, Output: why})
		}
		p.kept[e.Package] = append(p.kept[e.Package], e)
	}
	p.results.Add(e)
	p.print(e)
}

func (p *printer) print(e gotest.Event) {
	switch {
	case p.json:
		_ = json.NewEncoder(p.to).Encode(e)
	case e.Action == "output" && (p.verbose || e.Test == ""):
		io.WriteString(p.to, e.Output)
	case e.Action == "fail" && e.Test != "" && !p.verbose:
		io.WriteString(p.to, p.results.Output(e.Package+" "+e.Test))
	}
}

// fail notes that a test binary did not exit with 0.
func (p *printer) fail(pkg string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed[pkg] = true
}

// ended returns the top-level tests that have ended.
func (p *printer) ended() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(map[string]bool)
	for _, t := range p.results.Times {
		done[t.Name] = true
	}
	return done
}

// replay prints the results of a suite that need not run again.
func (p *printer) replay(s *suite, events []gotest.Event) {
	for _, e := range events {
		p.print(e)
	}
	p.conclude(s.pkg, "pass", "ok  \t"+s.pkg+"\t(cached)\n")
}

// finish says how a suite ended, and reports whether each of its tests did and none failed.
func (p *printer) finish(s *suite) bool {
	done := p.ended()
	var sum float64
	for _, t := range p.results.Times {
		if strings.HasPrefix(t.Name, s.pkg+" ") {
			sum += t.Time.Seconds()
		}
	}
	fine := !p.failed[s.pkg] && !slices.ContainsFunc(p.results.Failed, func(key string) bool { return strings.HasPrefix(key, s.pkg+" ") })
	for _, t := range s.tests {
		if !done[s.pkg+" "+t] {
			fine = false
			p.print(gotest.Event{Action: "output", Package: s.pkg, Output: t + " did not end\n"})
		}
	}
	if !fine {
		p.conclude(s.pkg, "fail", fmt.Sprintf("FAIL\t%s\t%.3fs\n", s.pkg, sum))
		return false
	}
	p.conclude(s.pkg, "pass", fmt.Sprintf("ok  \t%s\t%.3fs\n", s.pkg, sum))
	return true
}

func (p *printer) conclude(pkg, action, line string) {
	p.print(gotest.Event{Action: "output", Package: pkg, Output: line})
	if p.json {
		p.print(gotest.Event{Action: action, Package: pkg})
	}
}
