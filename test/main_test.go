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

// Tests do not run on the first thread: a test that moves its thread to a network namespace
// for good (see newNetns) would otherwise move /proc/net for the whole process.
func init() { runtime.LockOSThread() }

// Main is TestMain of each package of kernel tests. It prepares the machine, runs the
// tests, and fails a run that leaves a mapping behind. A process that a test has started
// with child plays one of the package's roles instead.
func Main(m *testing.M, playable map[string]func(args []string) error) {
	roles = playable
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
	// The module creates a dummy0 unless numdummies is 0, which systemd's modprobe.d
	// sets where it is installed.
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
