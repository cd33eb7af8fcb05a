//go:build linux

package rig

import (
	"context"
	"os/exec"
)

// machine is the program that is the guest's hardware, yet to be started. Its
// descriptors 3 and 4 are pipes, for the console and for the frames of pid 1; 5
// is the initramfs.
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
