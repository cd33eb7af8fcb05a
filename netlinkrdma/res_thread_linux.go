package netlinkrdma

import (
	"os"

	"golang.org/x/sys/unix"
)

// isOwnThread asks the kernel whether it could send a thread of this process a signal,
// and sends none.
func isOwnThread(tid uint32) bool {
	return unix.Tgkill(os.Getpid(), int(tid), 0) == nil
}
