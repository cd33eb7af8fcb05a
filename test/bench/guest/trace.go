//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A tracepoint is an event that the kernel counts by program, in a histogram. This hardly slows the
// programs down. strace would stop them at each call, and so change how often they find work.
type tracepoint struct {
	dir       string // directory in events
	histogram string
	row       *regexp.Regexp // matches the program, the event and the count
}

const tracefs = "/sys/kernel/tracing"

var (
	// systemCalls counts the system calls of a program, by name.
	systemCalls = &tracepoint{"raw_syscalls/sys_enter", "hist:keys=common_pid.execname,id.syscall:size=8192",
		regexp.MustCompile(`common_pid: (.*?) +\[ *\d+\], id: (?:sys_)?(\S+) *\[ *\d+\] \} hitcount: +(\d+)`)}
	// wakeUps counts the wake-ups of a program's threads.
	wakeUps = &tracepoint{"sched/sched_wakeup", "hist:keys=comm:size=2048", regexp.MustCompile(`comm: (.*?) *()\} hitcount: +(\d+)`)}
	// contextSwitches counts the switches of a CPU from a thread of a program to another thread.
	contextSwitches = &tracepoint{"sched/sched_switch", "hist:keys=prev_comm:size=2048", regexp.MustCompile(`prev_comm: (.*?) *()\} hitcount: +(\d+)`)}

	tracepoints = []*tracepoint{systemCalls, wakeUps, contextSwitches}
)

// enableTracepoints enables the tracepoints in the kernel. It does so once, while no program runs.
// Otherwise the kernel would rewrite its code each time counting starts or stops, and an emulator with
// two CPUs sometimes crashes then.
func enableTracepoints() error {
	if _, err := os.Stat(systemCalls.file("enable")); err != nil {
		if err := unix.Mount("tracefs", tracefs, "tracefs", 0, ""); err != nil {
			return fmt.Errorf("mount tracefs: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(tracefs, "tracing_on"), []byte("0"), 0); err != nil {
		return err
	}
	for _, t := range tracepoints {
		if err := os.WriteFile(t.file("enable"), []byte("1"), 0); err != nil {
			return err
		}
	}
	return nil
}

func (t *tracepoint) file(name string) string { return filepath.Join(tracefs, "events", t.dir, name) }

func (t *tracepoint) trigger(text string) error {
	return os.WriteFile(t.file("trigger"), []byte(text), 0)
}

// counts holds the kernel's counts for one program.
type counts struct {
	calls                    map[string]int // by name
	wakeUps, contextSwitches int
}

// during counts the events of programs with a name while f runs.
func during(name string, f func() error) (c counts, err error) {
	for _, t := range tracepoints {
		if err := t.trigger(t.histogram); err != nil {
			return c, fmt.Errorf("count %s: %w", t.dir, err)
		}
		defer t.trigger("!" + t.histogram)
	}
	if err := f(); err != nil {
		return c, err
	}
	var found [3]map[string]int
	for i, t := range tracepoints {
		text, err := os.ReadFile(t.file("hist"))
		if err != nil {
			return c, err
		}
		if found[i], err = t.parse(string(text), name); err != nil {
			return c, err
		}
	}
	return counts{found[0], found[1][""], found[2][""]}, nil
}

// parse parses a histogram and returns the counts of the program with a name.
func (t *tracepoint) parse(text, name string) (map[string]int, error) {
	found := make(map[string]int)
	for line := range strings.Lines(text) {
		m := t.row.FindStringSubmatch(line)
		if m == nil || m[1] != name {
			continue
		}
		n, err := strconv.Atoi(m[3])
		if err != nil {
			return nil, fmt.Errorf("histogram: %w", err)
		}
		found[m[2]] += n
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the kernel counted no %s of %s", t.dir, name)
	}
	return found, nil
}
