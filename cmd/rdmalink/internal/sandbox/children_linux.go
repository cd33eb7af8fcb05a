package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// reap reaps the children that have ended, and reports how one of them did, if it has.
func reap(command int) (status unix.WaitStatus, ok bool) {
	for {
		var s unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &s, unix.WNOHANG, nil); {
		case err == unix.EINTR:
		case err != nil || pid == 0:
			return status, ok
		case pid == command:
			status, ok = s, true
		}
	}
}

// endChildren kills the processes that the command left running, and waits until they have ended. The
// children of a process that ends become children of this process, and the tracer may reap the former
// first. A blocking wait4 would then wait for a child that was never killed, so endChildren polls.
func endChildren() {
	for {
		for _, pid := range children() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		switch pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); {
		case err != nil && err != unix.EINTR:
			return
		case pid == 0:
			time.Sleep(time.Millisecond)
		}
	}
}

// children returns the processes whose parent is this one.
func children() (pids []int) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, name := range lists {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(word); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
