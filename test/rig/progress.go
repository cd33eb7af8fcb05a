//go:build linux

package rig

import (
	"bytes"
	"fmt"
	"io"
)

// progress prints now and then how far a long build is, and keeps the end of the lines that
// it printed.
type progress struct {
	log   io.Writer
	of    int // lines in all, about
	lines int
	tail  []byte
}

const (
	progressEvery = 200
	progressKeep  = 4096
)

// Write takes what make prints, about a line a file.
func (p *progress) Write(b []byte) (int, error) {
	before := p.lines
	p.lines += bytes.Count(b, []byte("\n"))
	if p.lines/progressEvery > before/progressEvery {
		fmt.Fprintf(p.log, "vm: %d files, of about %d\n", p.lines, p.of)
	}
	p.tail = append(p.tail, b...)
	p.tail = p.tail[max(0, len(p.tail)-progressKeep):]
	return len(b), nil
}
