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

// atOnce is how many rows run beside each other. A guest has one CPU.
var atOnce = runtime.NumCPU()

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
		outcomes[i] = play(ctx, o, o.rows[i], fmt.Sprint(n+1))
		say("%s", ended(&outcomes[i]))
		if again, ok := outcomes[i].again(o); ok && ctx.Err() == nil {
			say("   %-12s runs again\n", o.rows[i].name)
			outcomes[i] = play(ctx, again, o.rows[i], fmt.Sprint(n+1, "-again")).after(&outcomes[i], again.flags == o.flags)
			say("%s", ended(&outcomes[i]))
		}
	}
	var workers sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		workers.Go(func() {
			for i := range next {
				playRow(i)
			}
		})
	}
	for i := range o.rows {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	return outcomes
}

// play runs one row to its end.
func play(ctx context.Context, o options, r row, number string) outcome {
	out := outcome{row: r, log: filepath.Join(logs, fmt.Sprintf("%s.%s.log", r.name, number))}
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
