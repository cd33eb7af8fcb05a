package trace

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// follow runs a command to its end and reports its calls.
func follow(ctx context.Context, words []string, report func(*Call) error) error {
	path, err := exec.LookPath(words[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // and never unlocked: only this thread may trace the child
	child, err := os.StartProcess(path, words, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &unix.SysProcAttr{Ptrace: true}})
	if err != nil {
		return fmt.Errorf("start %s: %w", words[0], err)
	}
	stop := context.AfterFunc(ctx, func() { child.Signal(unix.SIGTERM) })
	defer stop()
	t := &tracer{report: report, child: child.Pid, pending: make(map[int]*pending), known: make(map[int]bool)}
	if err := t.follow(); err != nil {
		child.Kill()
		return err
	}
	switch {
	case t.status.Signaled():
		return fmt.Errorf("%s: killed by %s", words[0], unix.SignalName(t.status.Signal()))
	case t.status.ExitStatus() != 0:
		return fmt.Errorf("%s: exit code %d", words[0], t.status.ExitStatus())
	}
	return nil
}
