//go:build linux

package rig

import (
	"bufio"
	"io"
	"regexp"
	"strings"
)

// console keeps the end of the kernel's output on its serial line, and its first report
// about itself, however much it wrote after that.
type console struct {
	lines  []string
	faults int
	report []string // from the first fault on
	ours   bool     // a report names a module of RDMA
	known  string   // the line of a report that names a known bug
}

const (
	consoleKeep = 200
	reportKeep  = 80
)

// faultLine matches how the kernel opens a report about itself. A warning begins
// with the CPU up to 6.12, and with the place on 7.2.
var faultLine = regexp.MustCompile(`WARNING: (CPU|possible|.* CPU#)|BUG: |BUG at |Oops|Kernel panic|general protection fault|int3: |invalid opcode: |double fault|stack segment: |blocked.* for more than|rcu: INFO|refcount_t: `)

// read collects until the console closes.
func (c *console) read(r io.Reader) {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			c.add(line)
		}
		if err != nil {
			return
		}
	}
}

func (c *console) add(line string) {
	if faultLine.MatchString(line) {
		c.faults++
	}
	if c.faults > 0 {
		c.ours = c.ours || underTest.MatchString(line) || onPurpose.MatchString(line)
		if knownBug.MatchString(line) {
			c.known = line
		}
		if len(c.report) < reportKeep {
			c.report = append(c.report, line)
		}
	}
	c.lines = append(c.lines, line)
	if len(c.lines) > consoleKeep {
		c.lines = c.lines[1:]
	}
}

func (c *console) tail(n int) string { return quoted(c.lines[max(0, len(c.lines)-n):]) }

func quoted(lines []string) string { return "  | " + strings.Join(lines, "\n  | ") + "\n" }
