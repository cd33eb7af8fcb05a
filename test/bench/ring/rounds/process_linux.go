package rounds

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

// process is the process that simulates the device. It handles doorbells asynchronously. On a machine
// with one CPU it would run in the middle of a measurement.
type process struct{ pid int }

// supervisor returns the sandbox's process with the device. The parent of a program in the sandbox is a guard, whose
// parent is the supervisor.
func supervisor() (*process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", syscall.Getppid()))
	if err != nil {
		return nil, err
	}
	p := new(process)
	if _, err := fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " %s %d", new(string), &p.pid); err != nil {
		return nil, fmt.Errorf("the guard's parent: %w", err)
	}
	return p, nil
}

func (p *process) stop() { p.signal(syscall.SIGSTOP) }
func (p *process) goOn() { p.signal(syscall.SIGCONT) }

// signal sends a signal, and then yields so that the process can act on it.
func (p *process) signal(s syscall.Signal) {
	if p == nil {
		return
	}
	_ = syscall.Kill(p.pid, s)
	for range grace {
		yield()
	}
}
