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

// A counter has the kernel count system calls, by program and by name, with a
// histogram on the tracepoint of their entry. That costs the programs next to
// nothing, where strace would stop them at each call and so change how often they
// find work to do.
type counter struct{ dir string }

const (
	tracefs   = "/sys/kernel/tracing"
	histogram = "hist:keys=common_pid.execname,id.syscall:size=8192"
)

func openCounter() (*counter, error) {
	c := &counter{dir: filepath.Join(tracefs, "events/raw_syscalls/sys_enter")}
	if _, err := os.Stat(c.dir); err != nil {
		if err := unix.Mount("tracefs", tracefs, "tracefs", 0, ""); err != nil {
			return nil, fmt.Errorf("mount tracefs: %w", err)
		}
	}
	// Once, now that nothing runs: counting on and off has the kernel rewrite its
	// own code otherwise, which an emulator with two CPUs survives nearly always.
	if err := os.WriteFile(filepath.Join(tracefs, "tracing_on"), []byte("0"), 0); err != nil {
		return nil, err
	}
	return c, os.WriteFile(filepath.Join(c.dir, "enable"), []byte("1"), 0)
}

func (c *counter) trigger(text string) error {
	return os.WriteFile(filepath.Join(c.dir, "trigger"), []byte(text), 0)
}

// during counts the calls that programs of a name make while f runs.
func (c *counter) during(name string, f func() error) (map[string]int, error) {
	if err := c.trigger(histogram); err != nil {
		return nil, fmt.Errorf("count system calls: %w", err)
	}
	defer c.trigger("!" + histogram)
	if err := f(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "hist"))
	if err != nil {
		return nil, err
	}
	return parseHistogram(string(text), name)
}

var histogramRow = regexp.MustCompile(`common_pid: (.*?) +\[ *\d+\], id: (?:sys_)?(\S+) *\[ *\d+\] \} hitcount: +(\d+)`)

func parseHistogram(text, name string) (map[string]int, error) {
	calls := make(map[string]int)
	for line := range strings.Lines(text) {
		m := histogramRow.FindStringSubmatch(line)
		if m == nil || m[1] != name {
			continue
		}
		n, err := strconv.Atoi(m[3])
		if err != nil {
			return nil, fmt.Errorf("histogram: %w", err)
		}
		calls[m[2]] += n
	}
	if len(calls) == 0 {
		return nil, fmt.Errorf("the kernel counted no system call of %s", name)
	}
	return calls, nil
}
