//go:build linux

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/test/rig"
)

const (
	// A Go program answers SIGQUIT with the stacks of its goroutines.
	stackTime = time.Minute
	// Processes that a command left running may still hold its output.
	drainTime = time.Minute
	// exitTimeout is what timeout(1) returns.
	exitTimeout = 124
	// exitNoCommand is a shell's exit code for a program that it cannot start.
	exitNoCommand = 127
)

// run runs the job's command as a child of pid 1 and reaps every other process
// that ends meanwhile.
func run(job rig.Job, frames *rig.FrameWriter) (int, error) {
	for _, kv := range job.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			os.Setenv(name, value)
		}
	}
	if err := os.Chdir(job.Dir); err != nil {
		return 0, err
	}
	path, err := exec.LookPath(job.Args[0])
	if err != nil {
		return exitNoCommand, frames.Write(rig.FrameStderr, fmt.Appendln(nil, "vm:", err))
	}
	var copies sync.WaitGroup
	stdout, err := forward(&copies, frames, rig.FrameStdout)
	if err != nil {
		return 0, err
	}
	stderr, err := forward(&copies, frames, rig.FrameStderr)
	if err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	pid, err := syscall.ForkExec(path, job.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), stdout.Fd(), stderr.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	stdout.Close()
	stderr.Close()
	if err != nil {
		return exitNoCommand, frames.Write(rig.FrameStderr, fmt.Appendf(nil, "vm: start %s: %v\n", path, err))
	}
	code := wait(pid, job.Timeout, frames)
	drained := make(chan struct{})
	go func() { copies.Wait(); close(drained) }()
	select {
	case <-drained:
	case <-time.After(drainTime):
	}
	return code, nil
}

// forward returns the write end of a pipe whose other end becomes frames.
func forward(copies *sync.WaitGroup, frames *rig.FrameWriter, kind byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	copies.Go(func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				frames.Write(kind, buf[:n])
			}
			if err != nil {
				return
			}
		}
	})
	return w, nil
}

// wait returns the exit code as a shell would. After limit the command
// gets SIGQUIT, then SIGKILL, and the code is that of timeout(1).
func wait(pid int, limit time.Duration, frames *rig.FrameWriter) int {
	expired := make(chan struct{})
	quit := time.AfterFunc(limit, func() {
		close(expired)
		frames.Write(rig.FrameStderr, fmt.Appendf(nil, "\nvm: still running after %s: SIGQUIT\n", limit))
		syscall.Kill(-pid, syscall.SIGQUIT)
	})
	kill := time.AfterFunc(limit+stackTime, func() { syscall.Kill(-pid, syscall.SIGKILL) })
	defer quit.Stop()
	defer kill.Stop()
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if err == syscall.EINTR || (err == nil && got != pid) {
			continue
		}
		select {
		case <-expired:
			return exitTimeout
		default:
		}
		if status.Signaled() {
			return 128 + int(status.Signal())
		}
		return status.ExitStatus()
	}
}
