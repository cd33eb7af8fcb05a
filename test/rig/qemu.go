//go:build linux

package rig

import (
	"fmt"
	"os/exec"
	"strconv"
)

const qemu = "qemu-system-x86_64"

// lookQemu says what to do where there is no emulator.
func lookQemu() (string, error) {
	path, err := exec.LookPath(qemu)
	if err != nil {
		return "", fmt.Errorf("%w: run `go run ./test/cmd/vm fetch`, or apt-get install qemu-system-x86", err)
	}
	return path, nil
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
