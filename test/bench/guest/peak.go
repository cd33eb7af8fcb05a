//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// peakMemory runs a command and returns its peak memory in KiB. It can't use the figure of wait4, which
// is at least the memory of the parent, because parent and child share memory until the exec. So it
// stops the child at its exit and reads VmHWM, which counts from the exec.
func peakMemory(program string, args []string) (int64, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return 0, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	runtime.LockOSThread() // a tracer is one thread
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(path, append([]string{program}, args...), &os.ProcAttr{
		Files: []*os.File{null, null, null}, Sys: &unix.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return 0, err
	}
	defer p.Release()
	var status unix.WaitStatus
	if _, err := unix.Wait4(p.Pid, &status, 0, nil); err != nil {
		return 0, err
	}
	if err := unix.PtraceSetOptions(p.Pid, unix.PTRACE_O_TRACEEXIT|unix.PTRACE_O_EXITKILL); err != nil {
		return 0, err
	}
	var peak int64
	for signal := 0; ; {
		if err := unix.PtraceCont(p.Pid, signal); err != nil {
			return 0, err
		}
		if _, err := unix.Wait4(p.Pid, &status, 0, nil); err != nil {
			return 0, err
		}
		switch {
		case status.Exited() && status.ExitStatus() == 0 && peak > 0:
			return peak, nil
		case !status.Stopped():
			return 0, fmt.Errorf("%s %s: ended with %#x, at %d KiB", program, strings.Join(args, " "), status, peak)
		case status.TrapCause() == unix.PTRACE_EVENT_EXIT:
			if peak, err = highWater(p.Pid); err != nil {
				return 0, err
			}
			signal = 0
		default:
			signal = int(status.StopSignal())
		}
	}
}

// highWater returns VmHWM of a process in KiB.
func highWater(pid int) (kib int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	_, err = fmt.Sscan(rest, &kib)
	return kib, err
}
