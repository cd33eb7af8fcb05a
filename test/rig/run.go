//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config says what to run in the guest.
type Config struct {
	Args    []string      // program and arguments, looked up in the guest
	Dir     string        // working directory, the same path in the guest
	Env     []string      // environment; GOVERBS_VM=RELEASE and GOVERBS_LACKS=DRIVERS are added
	Memory  int           // MiB; zero means 2048
	CPUs    int           // zero means one; more are less reliable
	Timeout time.Duration // for the command, boot not counted; zero means 10 minutes
	ICount  bool          // one CPU, whose clock counts instructions: one a nanosecond
	Stdout  io.Writer
	Stderr  io.Writer // also gets the rig's own messages
}

// Run boots k and runs one command in it. The exit code is the command's; err
// means that the guest sent none: it did not boot, died, or hung. It
// is a [MachineFault] where the emulator is to blame.
// Cancelling ctx kills the guest. The kernel's own reports (a warning,
// a bug, a stall) go to Stderr even if the command succeeded.
func Run(ctx context.Context, k Kernel, c Config) (code int, err error) {
	if k.uml() && c.ICount {
		return 0, fmt.Errorf("%s runs on the host's CPU, which does not count instructions for its clock: name one of %s", k.Series, strings.Join(Series, ", "))
	}
	if c.Memory == 0 {
		c.Memory = 2048
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	job := Job{
		Args: c.Args, Dir: c.Dir, Env: append(c.Env, "GOVERBS_VM="+k.Release, "GOVERBS_LACKS="+k.Lacks()), Timeout: c.Timeout,
		Modules: k.Modules(), Load: []string{"ib_uverbs", "rdma_ucm"},
		ShortSlices: !c.ICount && c.CPUs <= 1,
	}
	if k.uml() {
		job.UML, job.CPUMHz = true, cpuMHz()
	}
	return attempt(ctx, k, c, job)
}

// attempt boots k once.
func attempt(ctx context.Context, k Kernel, c Config, job Job) (int, error) {
	initrd, err := makeInitramfs(k, job)
	if err != nil {
		return 0, fmt.Errorf("make the guest's initramfs: %w", err)
	}
	defer initrd.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd, err := machine(ctx, k, c)
	if err != nil {
		return 0, err
	}
	return boot(ctx, cmd, initrd, k, c, newWatchdog(c.Timeout, cancel))
}

// boot starts the machine and listens until the guest has sent its exit code
// or is gone.
func boot(ctx context.Context, cmd *exec.Cmd, initrd *os.File, k Kernel, c Config, dog *watchdog) (int, error) {
	consoleR, consoleW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer consoleR.Close()
	framesR, framesW, err := os.Pipe()
	if err != nil {
		consoleW.Close()
		return 0, err
	}
	defer framesR.Close()
	cmd.ExtraFiles = []*os.File{consoleW, framesW, initrd} // descriptors 3, 4, 5
	c.Stderr = &lockedWriter{w: c.Stderr}                  // the machine's messages and the guest's
	cmd.Stderr = c.Stderr
	if k.uml() {
		cmd.Stdout, cmd.Stderr = consoleW, consoleW // its errors belong among the kernel's
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	consoleW.Close()
	framesW.Close()
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	var con console
	done := make(chan struct{})
	go func() { con.read(consoleR); close(done) }()
	code, err := listen(framesR, c, dog)
	dog.stop()
	cmd.Process.Kill()
	cmd.Wait()
	<-done
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	switch {
	case errors.Is(err, context.Canceled):
		return 0, err
	case err != nil:
		fmt.Fprintf(c.Stderr, "vm: linux %s: console:\n%s", k.Release, con.tail(60))
		if what, machine := con.blame(errors.Is(err, errDied)); machine {
			return 0, &MachineFault{k.Release, what}
		}
		return 0, fmt.Errorf("linux %s: %w", k.Release, err)
	case con.faults > 0:
		fmt.Fprintf(c.Stderr, "vm: linux %s: the kernel complained:\n%s", k.Release, quoted(con.report))
		if what, machine := con.blame(false); machine {
			fmt.Fprintf(c.Stderr, "vm: %v; the command went on\n", &MachineFault{k.Release, what})
		}
	}
	return code, nil
}

// listen passes the command's output on and returns its exit code.
func listen(r io.Reader, c Config, dog *watchdog) (int, error) {
	for {
		kind, payload, err := readFrame(r)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, errDied
		}
		if err != nil {
			return 0, err
		}
		switch kind {
		case FrameReady:
			dog.ready()
		case FrameStdout:
			_, err = c.Stdout.Write(payload)
		case FrameStderr:
			_, err = c.Stderr.Write(payload)
		case FrameFailed:
			return 0, fmt.Errorf("in the guest: %s", payload)
		case FrameExit:
			return strconv.Atoi(string(payload))
		default:
			err = fmt.Errorf("unknown frame %q from the guest", kind)
		}
		if err != nil {
			return 0, fmt.Errorf("pass the guest's output on: %w", err)
		}
	}
}
