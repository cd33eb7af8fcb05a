//go:build linux

package main

import (
	"bytes"
	"io"
	"regexp"
)

// finished passes the output of a test binary on, and keeps the names of the
// top-level tests that ended. Without -test.v a binary names the failed ones only.
type finished struct {
	to     io.Writer
	line   []byte
	bytes  int
	times  map[string]int // how often each ended
	failed int            // tests, subtests among them
}

// endOfTest matches what package testing prints at the end of a test; with
// -test.v=test2json the line begins with ^V.
var endOfTest = regexp.MustCompile(`^( *)\x16?--- (PASS|FAIL|SKIP): (\S+) \(`)

func (f *finished) Write(b []byte) (int, error) {
	f.bytes += len(b)
	for rest := b; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			f.line = append(f.line, rest...)
			break
		}
		f.look(append(f.line, rest[:i]...))
		f.line, rest = f.line[:0], rest[i+1:]
	}
	return f.to.Write(b)
}

func (f *finished) look(line []byte) {
	m := endOfTest.FindSubmatch(line)
	if m == nil {
		return
	}
	if len(m[1]) == 0 {
		f.times[string(m[3])]++
	}
	if string(m[2]) == "FAIL" {
		f.failed++
	}
}

// endLine ends a line that was cut off, so that the next boot's output begins on
// one of its own.
func (f *finished) endLine() {
	if len(f.line) > 0 {
		io.WriteString(f.to, "\n")
		f.line = f.line[:0]
	}
}
