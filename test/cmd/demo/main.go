//go:build linux

// Command demo runs the project's main job: rdmalink makes a software RDMA
// device, and a server and a client, two processes, move data through it. Where
// this machine can't, it does so in the project's virtual machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	here := flag.Bool("here", false, "run on this kernel, whatever it is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *here); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, here bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Dir(self)
	if here {
		return show(ctx, bin)
	}
	if why := unfit(); why != "" {
		fmt.Printf("This machine can't run the demo itself (%s):\nbooting a Debian kernel in QEMU for it. The first time, that takes minutes of downloading and building.\n", why)
		return inVM(ctx, bin, self)
	}
	return show(ctx, bin)
}

// unfit says why the running kernel can't be used, or "".
func unfit() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	if _, err := os.Stat("/sys/module/siw"); err == nil {
		return ""
	}
	if err := exec.Command("modprobe", "--dry-run", "--quiet", "siw").Run(); err != nil {
		return "its kernel has no siw module"
	}
	return ""
}

// kernel is the one series that the demo fetches.
const kernel = "6.12"

// inVM starts the demo again as the guest's command.
func inVM(ctx context.Context, bin, self string) error {
	vm := filepath.Join(bin, "vm")
	start := time.Now()
	if err := stream(ctx, vm, "fetch", "-kernel", kernel); err != nil {
		return err
	}
	fmt.Printf("Kernels are at hand after %v.\n", time.Since(start).Round(time.Second))
	return stream(ctx, vm, "run", "-kernel", kernel, "-timeout", "5m", "--", self, "-here")
}

// stream runs a command on the terminal and ends with it.
func stream(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return errors.Join(ctx.Err(), fmt.Errorf("%s: %w", filepath.Base(name), err))
	}
	return nil
}
