// Package top implements the command top, which shows the ports and the users of RDMA devices live, as
// htop shows processes.
package top

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/metrics"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// Command returns the command top.
func Command() cli.Command {
	return cli.Command{
		Names:   []string{"top"},
		Summary: "show traffic and users of RDMA devices live, sorted",
		Details: `
top shows three tables: devices, with the numbers of their objects and the maxima;
ports, with the traffic and the errors of the last interval; and processes, with
their objects, their memory, and their Kubernetes pod or cgroup.

On a terminal, top draws the tables until q is pressed. < and > choose the column to
sort by, and r reverses the order. With -b, or if the output is not a terminal, top
prints the tables once per interval. With -j, it prints them as a JSON object on one
line.

Columns to sort by:
  ` + strings.Join(sortKeys(), " ") + `

top needs no privileges. It sees the processes that /proc shows to the caller. Objects
of other processes count for "unknown". The maxima of a device need access to its node.
docs/exporter.md lists the counters of drivers behind each column.`,
		Options: []cli.Option{
			{Short: "-b", Long: "--batch-mode", Summary: "print the tables instead of drawing them"},
			{Short: "-n", Long: "--iterations", Value: "N", Summary: "exit after N intervals"},
			{Short: "-s", Long: "--sort", Value: "COLUMN", Summary: "sort by this column (default qp)"},
			{Short: "-i", Long: "--interval", Value: "SECONDS", Summary: "time between two readings (default 2)"},
		},
		Run: func(ctx context.Context, t *cli.Tool, w *cli.Words) error {
			v, err := parse(t, w)
			if err != nil {
				return err
			}
			return v.run(ctx)
		},
	}
}

// view is the state of the command.
type view struct {
	*cli.Tool
	source     *metrics.Collector
	iterations uint64 // 0 means no limit
	interval   time.Duration
	batch      bool
	sort       int // index of columns
	reverse    bool
	before     *metrics.Snapshot
	now        *metrics.Snapshot
}

func parse(t *cli.Tool, w *cli.Words) (*view, error) {
	v := &view{Tool: t, interval: 2 * time.Second, sort: slices.Index(sortKeys(), "qp")}
	if err := w.End(); err != nil {
		return nil, err
	}
	if text, given := t.Option("--iterations"); given {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			return nil, cli.UsageError{Text: fmt.Sprintf("--iterations %q: expected a number from 1", text)}
		}
		v.iterations = n
	}
	if text, given := t.Option("--interval"); given {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0.1 && seconds <= 86400) {
			return nil, cli.UsageError{Text: fmt.Sprintf("--interval %q: expected seconds from 0.1 to 86400", text)}
		}
		v.interval = time.Duration(seconds * float64(time.Second))
	}
	if text, given := t.Option("--sort"); given {
		if v.sort = slices.Index(sortKeys(), text); v.sort < 0 {
			return nil, cli.Expected(text, sortKeys()...)
		}
	}
	_, v.batch = t.Option("--batch-mode")
	v.source = &metrics.Collector{RDMA: t.RDMA, Route: t.Route, Proc: t.Proc.FS, Sys: t.Sys.FS, Query: v.query}
	return v, nil
}

// query opens a device, reads its details and closes it.
func (v *view) query(d netlinkrdma.Device) (metrics.Details, error) {
	if v.Open == nil {
		return metrics.Details{}, nil
	}
	dev, err := v.Open(d.Name)
	if err != nil {
		return metrics.Details{}, err
	}
	defer dev.Close() // without objects it can't fail
	return metrics.DetailsOf(dev, d.Ports)
}

// run takes a snapshot in each interval. Rates need two snapshots, so the first tables appear after
// one interval. A terminal shows tables without rates at once.
func (v *view) run(ctx context.Context) error {
	if err := v.collect(); err != nil {
		return err
	}
	if !v.batch && !v.JSON {
		if screen, err := openScreen(v.Stdin, v.Stdout); err == nil {
			defer screen.close()
			return v.live(ctx, screen)
		}
	}
	clock := time.NewTicker(v.interval)
	defer clock.Stop()
	for n := uint64(1); ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
		}
		if err := v.collect(); err != nil {
			return err
		}
		if err := v.print(n > 1); err != nil || n == v.iterations {
			return err
		}
	}
}

func (v *view) collect() error {
	s, err := v.source.Collect()
	if err == nil {
		v.before, v.now = v.now, s
	}
	return err
}

func (v *view) print(again bool) error {
	if v.JSON {
		return v.WriteJSON(v.tables().json())
	}
	text := v.tables().text()
	if again {
		text = "\n" + text
	}
	return v.Printf("%s", text)
}

// live shows the tables on a terminal until q is pressed or ctx is done.
func (v *view) live(ctx context.Context, s *screen) error {
	ctx, stop := context.WithCancel(ctx)
	defer s.wait()
	defer stop()
	keys := s.keys(ctx)
	clock := time.NewTicker(v.interval)
	defer clock.Stop()
	for n := uint64(0); ; {
		if err := s.draw(v.tables().text()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case key := <-keys:
			if key == 'q' {
				return nil
			}
			v.press(key)
		case sig := <-s.signals:
			if err := s.job(sig); err != nil {
				return err
			}
		case <-clock.C:
			if err := v.collect(); err != nil {
				return err
			}
			if n++; n == v.iterations {
				return s.draw(v.tables().text())
			}
		}
	}
}

func (v *view) press(key byte) {
	columns := len(sortKeys())
	switch key {
	case '>', '.':
		v.sort = (v.sort + 1) % columns
	case '<', ',':
		v.sort = (v.sort + columns - 1) % columns
	case 'r':
		v.reverse = !v.reverse
	}
}
