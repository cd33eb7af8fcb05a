//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// atOnce is how many rows with guests run beside each other, and how many without. A guest has one
// CPU, and leaves it idle while its tests wait.
var atOnce = runtime.NumCPU()

// A queue hands rows out, in their order but for those that have to wait.
type queue struct {
	mu      sync.Mutex
	rows    []row
	begun   []bool
	running map[bool]int // by row.beside
}

func newQueue(rows []row) *queue {
	return &queue{rows: rows, begun: make([]bool, len(rows)), running: make(map[bool]int)}
}

// next returns the index of the first row that may begin. If there is none, workers that run a row
// will begin the rest.
func (q *queue) next() (int, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, r := range q.rows {
		if !q.begun[i] && q.running[r.beside] < atOnce {
			q.begun[i] = true
			q.running[r.beside]++
			return i, true
		}
	}
	return 0, false
}

func (q *queue) ended(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running[q.rows[i].beside]--
}

// together runs the rows and reports each as it ends; the outcomes are in the
// order of the rows.
func together(ctx context.Context, o options, n int, stdout io.Writer) []outcome {
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(stdout, format, args...)
	}
	outcomes := make([]outcome, len(o.rows))
	playRow := func(i int) {
		say("   %-12s begins\n", o.rows[i].name)
		outcomes[i] = play(ctx, o, n, o.rows[i])
		say("%s", ended(&outcomes[i]))
	}
	var workers sync.WaitGroup
	q := newQueue(o.rows)
	for range 2 * atOnce {
		workers.Go(func() {
			for ctx.Err() == nil {
				i, ok := q.next()
				if !ok {
					return
				}
				playRow(i)
				q.ended(i)
			}
		})
	}
	workers.Wait()
	return outcomes
}

// play runs one row to its end.
func play(ctx context.Context, o options, n int, r row) outcome {
	out := outcome{row: r, log: filepath.Join(logs, fmt.Sprintf("%s.%d.log", r.name, n+1))}
	start := time.Now()
	out.err = out.follow(ctx, r.argv(o))
	out.took = time.Since(start)
	return out
}

// follow runs a command and reads its output.
func (o *outcome) follow(ctx context.Context, argv []string) error {
	log, err := os.Create(o.log)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	lines := bufio.NewReader(io.TeeReader(r, log))
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			o.add(strings.TrimRight(line, "\n"))
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	if s := cmd.ProcessState; s != nil {
		o.cpu = s.UserTime() + s.SystemTime()
	}
	return err
}
