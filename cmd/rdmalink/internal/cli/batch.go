package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// setBatch applies -b.
func (t *Tool) setBatch(file string) error {
	if t.inBatch {
		return UsageError{Text: "a line of a batch can't be a batch"}
	}
	if file == "" {
		return Expected("", "-b FILE")
	}
	t.batch = file
	return nil
}

// runBatch runs the commands in a file, each as soon as its line has been read,
// because standard input may be interactive. A line may have options of its own,
// in addition to those given with -b. The first error ends the batch unless force
// is set.
//
// C: do_batch
func (t *Tool) runBatch(ctx context.Context, w *Words) error {
	if len(w.list) > 0 {
		return UsageError{Text: fmt.Sprintf("%q: -b takes no command, it runs those in %s", w.list[0], t.batch)}
	}
	in := io.NopCloser(t.Stdin)
	if t.batch != "-" {
		f, err := os.Open(t.batch)
		if err != nil {
			return err
		}
		in = f
	}
	defer in.Close()
	var failed, all int
	lines := readBatch(ctx, in)
	for {
		words, err := lines.next(ctx)
		if err == io.EOF || ctx.Err() != nil {
			break
		}
		all++
		if err == nil {
			err = t.runWords(ctx, words)
		}
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s:%d: %w", t.batch, lines.number, err)
		if !t.force {
			return err
		}
		t.report(err)
		failed++
	}
	if failed > 0 {
		return fmt.Errorf("%d of the %d commands in %s failed", failed, all, t.batch)
	}
	return ctx.Err()
}

// runWords runs a line of the batch. The line's options hold for that line only.
func (t *Tool) runWords(ctx context.Context, list []string) error {
	line := *t
	line.batch, line.force, line.inBatch = "", false, true
	return line.dispatch(ctx, t.root, nil, &Words{list: list})
}

// batchLines reads the commands of a batch in iproute2's form: words separated by
// blanks, or enclosed in quotes of either kind. # begins a comment, and a backslash
// at the end of a line continues it.
type batchLines struct {
	raw    <-chan rawLine
	number int // of the line that was read last, from 1
}

type rawLine struct {
	text string
	err  error
}

// readBatch reads in a goroutine, because a read from a terminal can't be
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

// next returns the words of the next line that has any, or io.EOF.
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
		words, err := SplitLine(line)
		if len(words) > 0 || err != nil {
			return words, err
		}
	}
}

// line returns the next line without its comment.
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

// SplitLine splits a line of a batch into words. A quote is special only at the
// beginning of a word.
//
// C: makeargs
func SplitLine(line string) ([]string, error) {
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
