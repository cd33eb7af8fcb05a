package rounds

import "syscall"

// process is one that has the device in it. It acts on a doorbell some time later, and on a
// machine with one CPU that would be in the middle of a measurement.
type process struct{ pid int }

func parent() *process { return &process{syscall.Getppid()} }

func (p *process) stop() { p.signal(syscall.SIGSTOP) }
func (p *process) goOn() { p.signal(syscall.SIGCONT) }

// signal gives the process the time to obey.
func (p *process) signal(s syscall.Signal) {
	if p == nil {
		return
	}
	_ = syscall.Kill(p.pid, s)
	for range grace {
		yield()
	}
}
