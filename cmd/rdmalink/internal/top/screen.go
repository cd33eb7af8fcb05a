package top

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
)

// screen draws on a terminal and reads its keys.
type screen struct {
	out     io.Writer
	in      io.Reader                  // nil unless it is a terminal
	size    func() (columns, rows int) // returns the current size of the window
	restore func()
	// signals has the signals of job control, which job obeys.
	signals chan os.Signal
	job     func(os.Signal) error
	reader  sync.WaitGroup
}

// Control sequences of ECMA-48. Those for the alternate screen are xterm's.
const (
	enter     = "\x1b[?1049h\x1b[?25l"
	leave     = "\x1b[?25h\x1b[?1049l"
	home      = "\x1b[H"
	clearLine = "\x1b[K"
	clearRest = "\x1b[J"
	inverse   = "\x1b[7m"
	plain     = "\x1b[m"
)

// draw shows the part of the text that fits into the window. It inverts headings, which are lines that
// begin with a capital word.
func (s *screen) draw(text string) error {
	columns, rows := s.size()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), rows)]
	var b strings.Builder
	b.WriteString(home)
	for i, line := range lines {
		if runes := []rune(line); len(runes) > columns {
			line = string(runes[:columns])
		}
		if strings.HasPrefix(line, "DEVICE ") || strings.HasPrefix(line, "PORT ") || strings.HasPrefix(line, "PID ") {
			line = inverse + line + plain
		}
		b.WriteString(line + clearLine)
		if i < len(lines)-1 {
			b.WriteString("\r\n")
		}
	}
	b.WriteString(clearRest)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// keys reads keys from the terminal until ctx is done. A read returns after a short time without a key.
func (s *screen) keys(ctx context.Context) <-chan byte {
	keys := make(chan byte)
	if s.in == nil {
		return keys
	}
	s.reader.Go(func() {
		var b [1]byte
		for ctx.Err() == nil {
			n, err := s.in.Read(b[:])
			if err != nil && err != io.EOF {
				return
			}
			if n == 0 {
				continue
			}
			select {
			case keys <- b[0]:
			case <-ctx.Done():
			}
		}
	})
	return keys
}

// wait waits until the goroutine of keys has ended.
func (s *screen) wait() { s.reader.Wait() }

func (s *screen) close() {
	_, _ = io.WriteString(s.out, leave)
	s.restore()
}
