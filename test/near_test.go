//go:build vm

package test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// The programs that tests start again and again, and what libibverbs reads each
// time it looks for devices.
var (
	often = []string{"sh", "ip", "rdma", "timeout", "modprobe", "ibv_devinfo", "ibv_devices", "rping", "mckey", "udaddy", "ucmatose", "cmtime", "rdma_client", "rdma_server", "rdma_xclient", "rdma_xserver", "rstream", "riostream", "rcopy",
		"ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw", "ib_read_lat", "ib_read_bw", "ib_atomic_lat", "ib_atomic_bw",
		"ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong", rdmalinkBin}
	oftenRead = []string{"/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/libibverbs.d/*", libraries + "/libibverbs/*"}
)

const libraries = "/lib/x86_64-linux-gnu"

// rdmalinkBin is the static binary that make builds before the machine boots. Tests run
// in the directories of their packages, which are two below the module's.
const rdmalinkBin = "../../bin/rdmalink"

// bringNear copies them from the host's files into the guest's memory. Elsewhere
// starting a program takes up to 180 requests to the host, for a remote file system
// asks at every open, and for every symbolic link on the way.
func bringNear() {
	seen := make(map[string]bool)
	for _, pattern := range oftenRead {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			near(file, seen)
		}
	}
	for _, name := range often {
		if path, err := exec.LookPath(name); err == nil {
			near(path, seen)
		}
	}
}

// near copies a file, all files that symbolic links lead to, and the libraries
// that the last of them is linked with. Giving a file the owner that it has is
// what makes the overlay of the guest's root copy it.
func near(path string, seen map[string]bool) {
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
		near(to, seen)
		return
	}
	program, err := elf.Open(path)
	if err != nil {
		return
	}
	defer program.Close()
	needed, _ := program.ImportedLibraries()
	for _, library := range needed {
		near(filepath.Join(libraries, strings.TrimPrefix(library, "/")), seen)
	}
}
