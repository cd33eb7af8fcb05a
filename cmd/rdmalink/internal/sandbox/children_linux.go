package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

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
