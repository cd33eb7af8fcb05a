//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
)

// startHogs starts busy loops, which end with this process at the latest.
func startHogs(ctx context.Context, n int) (stop func(), err error) {
	ctx, stop = context.WithCancel(ctx)
	for range n {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("start a busy loop: %w", err)
		}
		go cmd.Wait()
	}
	return stop, nil
}
