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

// A tracepoint is an event that the kernel counts, with a histogram by the program
// that it concerns. That costs the programs next to nothing, where strace would stop
// them at each call and so change how often they find work to do.
type tracepoint struct {
	dir       string // below events
	histogram string
	row       *regexp.Regexp // program, what is counted, and how often
}

const tracefs = "/sys/kernel/tracing"

var (
	// systemCalls counts the system calls of a program, by name.
	systemCalls = &tracepoint{"raw_syscalls/sys_enter", "hist:keys=common_pid.execname,id.syscall:size=8192",
		regexp.MustCompile(`common_pid: (.*?) +\[ *\d+\], id: (?:sys_)?(\S+) *\[ *\d+\] \} hitcount: +(\d+)`)}
	// wakeUps counts how often a thread of a program was woken.
	wakeUps = &tracepoint{"sched/sched_wakeup", "hist:keys=comm:size=2048", regexp.MustCompile(`comm: (.*?) *()\} hitcount: +(\d+)`)}
	// contextSwitches counts how often a CPU left a thread of a program for another thread.
	contextSwitches = &tracepoint{"sched/sched_switch", "hist:keys=prev_comm:size=2048", regexp.MustCompile(`prev_comm: (.*?) *()\} hitcount: +(\d+)`)}

	tracepoints = []*tracepoint{systemCalls, wakeUps, contextSwitches}
)

// enableTracepoints lets the kernel reach the tracepoints. It does so once, while nothing
// runs: the kernel would otherwise rewrite its own code each time counting starts
// and stops, which an emulator with two CPUs survives nearly always.
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

// counts holds what the kernel counted for one program.
type counts struct {
	calls                    map[string]int // by name
	wakeUps, contextSwitches int
}

// during counts the events of programs of a name while f runs.
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

// parse reads a histogram. It returns the counts of the program of a name.
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
