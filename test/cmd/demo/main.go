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
	"runtime"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/test/rig"
	"github.com/goverbs/goverbs/test/rig/guest"
)

func main() {
	guest.Enter()
	// The emulator is to die with the thread that started it.
	runtime.LockOSThread()
	here := flag.Bool("here", false, "run on this kernel, whatever it is")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, *here)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

func run(ctx context.Context, here bool) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if !here {
		if why := unfit(); why != "" {
			fmt.Printf("This machine can't run the demo itself (%s):\nbooting a Debian kernel in QEMU for it.\n", why)
			return inVM(ctx, self)
		}
	}
	return 0, show(ctx, filepath.Dir(self))
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

// inVM runs the demo again in a guest, of which it is the first process too.
func inVM(ctx context.Context, self string) (code int, err error) {
	start := time.Now()
	_, absent := rig.Open(kernel)
	if absent != nil {
		fmt.Println("The first time, that takes two minutes of building, besides the downloads.")
	}
	k, err := rig.FetchGuest(ctx, os.Stderr, kernel)
	if err != nil {
		return 0, err
	}
	if absent != nil {
		fmt.Printf("The kernel is at hand after %v.\n", time.Since(start).Round(time.Second))
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	return rig.Run(ctx, k, rig.Config{
		Args: []string{self, "-here"}, Dir: dir, Env: os.Environ(), Timeout: 5 * time.Minute, Stdout: os.Stdout, Stderr: os.Stderr,
	})
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
