//go:build linux

package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

const qemu = "qemu-system-x86_64"

// lookQemu finds the emulator, which is newer than Debian 12's: that one takes a
// quarter more time, and breaks more often where it emulates two CPUs. Its libraries
// and firmware are those of Debian 12.
func lookQemu() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	path := newerQemu(cache)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no emulator: run `go run ./test/cmd/vm fetch`: %w", err)
	}
	return path, nil
}

func newerQemu(cache string) string { return filepath.Join(cache, newerSuite, qemu) }

// fetchQemu takes the program out of its package. One that is there stays.
func fetchQemu(ctx context.Context, log io.Writer, cache string) error {
	return fetchNewer(ctx, log, cache, "qemu-system-x86", "usr/bin/"+qemu, newerQemu(cache), "--version")
}

// qemuArgs describes the guest: CPUs of the plainest kind and unprotected, which
// emulate a tenth faster; no test of the timer, which a busy host fails; the host's
// time stamp counter as the clock, which Linux 6.1 does not trust in two CPUs of this
// kind, and others not after a wait for a busy host, and then exchange for a device,
// slow to emulate; the kernel's console on descriptor 3 and the frames of pid 1
// on descriptor 4, both pipes; the initramfs on descriptor 5.
func qemuArgs(k Kernel, c Config) []string {
	return append(qemuCPUs(c),
		"-M", "q35", "-cpu", "qemu64", "-m", strconv.Itoa(c.Memory),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", k.Image(), "-initrd", "/dev/fd/5",
		"-append", "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off no_timer_check tsc=reliable",
		"-chardev", "file,id=console,path=/dev/fd/3", "-serial", "chardev:console",
		"-device", "virtio-serial-pci", "-chardev", "file,id=frames,path=/dev/fd/4",
		"-device", "virtserialport,chardev=frames,name=frames",
		"-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
	)
}

// qemuCPUs is one CPU, on one thread. Of two, on two threads, one goes on now and
// then with instructions that the other has patched, and the kernel dies: a static
// key of the scheduler, toggled again and again, kills QEMU 7.2 in seconds, and QEMU
// 10.0 in a minute. Only measurements that want two CPUs have them.
//
// With icount an instruction takes a nanosecond of the guest's time. With sleep=off in
// addition, a guest that waits for the host's files would find its timers expired.
func qemuCPUs(c Config) []string {
	switch {
	case c.ICount:
		return []string{"-smp", "1", "-accel", "tcg,thread=single", "-icount", "shift=0"}
	case c.CPUs > 1:
		return []string{"-smp", strconv.Itoa(c.CPUs), "-accel", "tcg,thread=multi"}
	}
	return []string{"-smp", "1", "-accel", "tcg,thread=single"}
}
