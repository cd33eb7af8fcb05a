package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// batchLines are the commands of a batch, in iproute2's form: words between
// blanks, or in quotes of either kind; what follows # is not read, nor is a
// line break behind a backslash.
type batchLines struct {
	raw    <-chan rawLine
	number int // of the line that was read last, from 1
}

type rawLine struct {
	text string
	err  error
}

// readBatch reads in a goroutine of its own: a read of a terminal can't be
// interrupted.
func readBatch(ctx context.Context, in io.Reader) *batchLines {
	raw := make(chan rawLine)
	go func() {
		defer close(raw)
		for r := bufio.NewReader(in); ; {
			text, err := r.ReadString('\n')
			if err == io.EOF && text == "" {
				return
			}
			ended := err != nil
			if err == io.EOF {
				err = nil
			}
			select {
			case raw <- rawLine{text, err}:
			case <-ctx.Done():
				return
			}
			if ended {
				return
			}
		}
	}()
	return &batchLines{raw: raw}
}

// next gives the words of the next line that has some, or io.EOF.
//
// C: getcmdline
func (b *batchLines) next(ctx context.Context) ([]string, error) {
	for {
		line, err := b.line(ctx)
		if err != nil {
			return nil, err
		}
		for {
			begin, broken := strings.CutSuffix(line, "\\\n")
			if !broken {
				break
			}
			more, err := b.line(ctx)
			if err == io.EOF {
				return nil, errors.New("a backslash at the end of the last line")
			}
			if err != nil {
				return nil, err
			}
			line = begin + more
		}
		words, err := splitLine(line)
		if len(words) > 0 || err != nil {
			return words, err
		}
	}
}

// line is one that ends with a line break, without what is a comment.
func (b *batchLines) line(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case line, ok := <-b.raw:
		if !ok {
			return "", io.EOF
		}
		b.number++
		text, _, _ := strings.Cut(line.text, "#")
		return text, line.err
	}
}

// splitLine takes the words apart. A quote counts at the beginning of a word.
//
// C: makeargs
func splitLine(line string) ([]string, error) {
	const blanks = " \t\r\n"
	var words []string
	for {
		line = strings.TrimLeft(line, blanks)
		if line == "" {
			return words, nil
		}
		var word string
		if quote := line[:1]; quote == `"` || quote == "'" {
			var closed bool
			if word, line, closed = strings.Cut(line[1:], quote); !closed {
				return nil, errors.New("a quote that is not closed")
			}
		} else {
			end := strings.IndexAny(line, blanks)
			if end < 0 {
				end = len(line)
			}
			word, line = line[:end], line[end:]
		}
		words = append(words, word)
	}
}
