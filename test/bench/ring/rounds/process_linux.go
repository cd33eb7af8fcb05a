package rounds

import "syscall"

// process is the process that simulates the device. It handles doorbells asynchronously. On a machine
// with one CPU it would run in the middle of a measurement.
type process struct{ pid int }

func parent() *process { return &process{syscall.Getppid()} }

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
