//go:build linux

package rig

import (
	"bufio"
	"io"
	"regexp"
	"strings"
)

// console is the end of what the kernel wrote to its serial line.
type console struct {
	lines    []string
	faults   int
	reported int // the line in which the first report that is kept begins
}

const consoleKeep = 200

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
		if c.faults == 0 {
			c.reported = len(c.lines)
		}
		c.faults++
	}
	c.lines = append(c.lines, line)
	if len(c.lines) > consoleKeep {
		c.lines = c.lines[1:]
		c.reported = max(0, c.reported-1)
	}
}

func (c *console) tail(n int) string {
	lines := c.lines[max(0, len(c.lines)-n):]
	return "  | " + strings.Join(lines, "\n  | ") + "\n"
}
