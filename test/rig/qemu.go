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

// qemuArgs describes the guest: two CPUs, emulated, so that two busy-polling
// processes do not take turns, of the plainest kind and unprotected, which emulate
// a tenth faster; the kernel's console on descriptor 3 and the frames of pid 1 on
// descriptor 4, both pipes; the initramfs on descriptor 5.
func qemuArgs(k Kernel, mem int) []string {
	return []string{
		"-M", "q35", "-cpu", "qemu64", "-smp", "2", "-m", strconv.Itoa(mem),
		"-accel", "tcg,thread=multi",
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", k.Image(), "-initrd", "/dev/fd/5",
		"-append", "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off",
		"-chardev", "file,id=console,path=/dev/fd/3", "-serial", "chardev:console",
		"-device", "virtio-serial-pci", "-chardev", "file,id=frames,path=/dev/fd/4",
		"-device", "virtserialport,chardev=frames,name=frames",
		"-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
	}
}
