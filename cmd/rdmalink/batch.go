package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// setBatch is what -b does.
func (t *tool) setBatch(file string) error {
	if t.inBatch {
		return cli.UsageError{Text: "a line of a batch can't be a batch"}
	}
	if file == "" {
		return cli.Expected("", "-b FILE")
	}
	t.batch = file
	return nil
}

// runBatch runs the commands in a file, each as it comes: standard input may
// be a conversation. A line has options of its own, besides those given with
// -b. The first error ends it, unless force is set.
//
// C: do_batch
func (t *tool) runBatch(ctx context.Context, w *words) error {
	if len(w.list) > 0 {
		return cli.UsageError{Text: fmt.Sprintf("%q: -b takes no command, those in %s are run", w.list[0], t.batch)}
	}
	in := io.NopCloser(t.stdin)
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

// runWords runs a line, whose options are gone after it.
func (t *tool) runWords(ctx context.Context, list []string) error {
	line := *t
	line.batch, line.force, line.inBatch = "", false, true
	return line.dispatch(ctx, root(), nil, &words{list: list})
}
