//go:build vm

package test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/mmap"
)

// The first thread is kept from tests: one that moves to a network namespace for
// good (see newNetns) would take /proc/net there for the whole process.
func init() { runtime.LockOSThread() }

// TestMain fails a run that leaves a mapping behind, and lets this binary be the
// process that a test kills or puts elsewhere (see child).
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run()) // on the host, for vm test
	}
	// Linux 6.1's siw holds even root to the limit, which is 8 MiB.
	forever := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &forever); err != nil {
		fmt.Fprintln(os.Stderr, "raise RLIMIT_MEMLOCK:", err)
		os.Exit(1)
	}
	// The module makes a dummy0 of its own accord unless told otherwise, which
	// systemd's modprobe.d does where it is installed.
	if out, err := exec.Command("modprobe", "dummy", "numdummies=0").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "modprobe dummy: %v: %s\n", err, out)
		os.Exit(1)
	}
	bringNear()
	code := m.Run()
	if n := mmap.Live(); n > 0 {
		fmt.Fprintf(os.Stderr, "%d mappings left\n", n)
		code = max(code, 1)
	}
	os.Exit(code)
}
