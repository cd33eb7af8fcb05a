//go:build linux

package rig

import (
	"context"
	"os/exec"
)

// machine returns the program that emulates the guest's hardware. The caller starts it
// with pipes as descriptors 3 and 4, for the console and for the frames of pid 1, and
// with the initramfs as descriptor 5.
func machine(ctx context.Context, k Kernel, c Config) (*exec.Cmd, error) {
	if k.uml() {
		cmd := exec.CommandContext(ctx, k.Image(), umlArgs(c.Memory)...)
		cmd.Env = umlEnv(c.Memory)
		return cmd, nil
	}
	bin, err := lookQemu()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, bin, qemuArgs(k, c)...), nil
}
