//go:build vm

package kit

import (
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/internal/regions"
	_ "github.com/goverbs/goverbs/provider/all"
)

// Tests do not run on the first thread: a test that moves its thread to a network namespace
// for good (see NewNetns) would otherwise move /proc/net for the whole process.
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
	copyPrograms()
	code := m.Run()
	if n := regions.Live(); n > 0 {
		fmt.Fprintf(os.Stderr, "%d mappings left\n", n)
		code = max(code, 1)
	}
	os.Exit(code)
}

// The programs that tests start again and again, and the files that libibverbs reads each
// time it looks for devices.
var (
	programs = []string{"sh", "ip", "rdma", "timeout", "modprobe", "ibv_devinfo", "ibv_devices", "rping", "mckey", "udaddy", "ucmatose", "cmtime", "rdma_client", "rdma_server", "rdma_xclient", "rdma_xserver", "rstream", "riostream", "rcopy",
		"ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw", "ib_read_lat", "ib_read_bw", "ib_atomic_lat", "ib_atomic_bw",
		"ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", RdmalinkBin, CMTestBin}
	libraryFiles = []string{"/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/libibverbs.d/*", libraries + "/libibverbs/*"}
)

const libraries = "/lib/x86_64-linux-gnu"

// RdmalinkBin is the static binary that make builds before the machine boots. Tests run
// in the directories of their packages, which are two below the module's.
const RdmalinkBin = "../../bin/rdmalink"

// CMTestBin stands in for librdmacm's test programs.
const CMTestBin = "../../bin/cmtest"

// copyPrograms copies these programs and files from the host's file system into the guest's
// memory. A start from the host's file system takes up to 180 requests to the host, one for
// each file that is opened and for each symbolic link on the way.
func copyPrograms() {
	seen := make(map[string]bool)
	for _, pattern := range libraryFiles {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			CopyToGuest(file, seen)
		}
	}
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			CopyToGuest(path, seen)
		}
	}
}

// CopyToGuest copies a file, all files that symbolic links lead to, and the libraries
// that the last of them is linked with. To set the owner that a file already has makes the
// overlay of the guest's root copy it.
func CopyToGuest(path string, seen map[string]bool) {
	if seen[path] {
		return
	}
	seen[path] = true
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	owner := info.Sys().(*syscall.Stat_t)
	os.Lchown(path, int(owner.Uid), int(owner.Gid))
	if to, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		CopyToGuest(to, seen)
		return
	}
	program, err := elf.Open(path)
	if err != nil {
		return
	}
	defer program.Close()
	needed, _ := program.ImportedLibraries()
	for _, library := range needed {
		CopyToGuest(filepath.Join(libraries, strings.TrimPrefix(library, "/")), seen)
	}
}
