//go:build linux

// Command vm runs a program on a stock Debian kernel in QEMU, or on User Mode
// Linux, with the host's files at the same paths:
// go test -exec 'vm run -kernel 6.12 --' ./...
//
// In the guest it is pid 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/test/rig"
	"github.com/goverbs/goverbs/test/rig/guest"
)

const usage = `usage:
  vm fetch [-kernel SERIES]                     get tools, kernels and siw with apt (root or sudo)
  vm headers                                    get rdma_netlink.h of the newest kernel with apt
  vm rdma-core                                  build the newest rdma-core from its source package, got with apt
  vm valkey DIR                                 build Valkey with RDMA from Debian's source, and copy its programs to DIR
  vm test [-kernel SERIES] [-guests N] [flags] [PACKAGE...]
                                                run the packages' tests in guests, as go test would; -h lists the flags
  vm run [-kernel SERIES] [-mem MIB] [-cpus N] [-timeout D] [-icount] -- CMD [ARG...]
                                                run CMD in a guest; its exit code is the result

SERIES is %s, some of them in quotes, or all; fetch gets all, run and test take %s, if none is named.
%s is User Mode Linux, which fetch compiles for seven minutes, and which runs programs
at the speed of the host. With -icount a nanosecond of the guest's clock is one instruction.
Exit code 124: CMD ran longer than the timeout. 125: the guest did not boot, died or hung. 126: the
emulator is to blame for that; tests that had not finished were run again before.
`

// Exit codes that distinguish a failure of the guest from one of the command, as in docker.
const (
	exitRig   = 125
	exitFault = 126
)

func main() {
	guest.Enter()
	// The emulator is to die with the thread that started it.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintf(stderr, usage, strings.Join(rig.Series, ", "), rig.Series[0], rig.UML)
		return 2
	}
	var code int
	var err error
	switch args[0] {
	case "fetch":
		err = fetch(ctx, args[1:], stderr)
	case "headers":
		err = rig.FetchHeaders(ctx, stderr)
	case "rdma-core":
		err = rig.FetchRDMACore(ctx, stderr)
	case "valkey":
		if len(args) != 2 {
			err = errors.New("valkey: expected a directory")
			break
		}
		err = rig.InstallValkey(ctx, stderr, args[1])
	case "run":
		code, err = runGuest(ctx, args[1:], stdout, stderr)
	case "test":
		code, err = testGuests(ctx, args[1:], stdout, stderr)
	case "batch": // in a guest of vm test
		if len(args) != 2 {
			err = errors.New("batch: expected the file that vm test wrote")
			break
		}
		err = batch(args[1], stdout)
	default:
		fmt.Fprintf(stderr, usage, strings.Join(rig.Series, ", "), rig.Series[0], rig.UML)
		return 2
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 2
	case errors.As(err, new(*rig.MachineFault)):
		fmt.Fprintln(stderr, "vm:", err)
		return exitFault
	case err != nil:
		fmt.Fprintln(stderr, "vm:", err)
		return exitRig
	}
	return code
}

func fetch(ctx context.Context, args []string, stderr io.Writer) error {
	fs := flag.NewFlagSet("vm fetch", flag.ContinueOnError)
	fs.SetOutput(stderr)
	kernel := fs.String("kernel", "all", "kernel series")
	if err := fs.Parse(args); err != nil {
		return err
	}
	series, err := rig.CheckSeries(*kernel)
	if err != nil {
		return err
	}
	return rig.Fetch(ctx, stderr, series...)
}

func runGuest(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	fs := flag.NewFlagSet("vm run", flag.ContinueOnError)
	fs.SetOutput(stderr)
	kernel := fs.String("kernel", rig.Series[0], "kernel series; several, or all, one after another")
	mem := fs.Int("mem", 2048, "memory in MiB")
	cpus := fs.Int("cpus", 1, "CPUs; more than one are for measurements: the emulator breaks now and then")
	timeout := fs.Duration("timeout", 10*time.Minute, "how long the command may run")
	icount := fs.Bool("icount", false, "one CPU, whose clock counts instructions: one a nanosecond")
	if err := fs.Parse(args); err != nil {
		return 0, err
	}
	if fs.NArg() == 0 {
		return 0, errors.New("run: no command: expected vm run [flags] -- CMD [ARG...]")
	}
	series, err := rig.CheckSeries(*kernel)
	if err != nil {
		return 0, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	worst := 0
	for _, s := range series {
		k, err := rig.Open(s)
		if err != nil {
			return 0, err
		}
		if len(series) > 1 {
			fmt.Fprintln(stderr, "vm: linux", k.Release)
		}
		code, err := persist(ctx, k, rig.Config{
			Args: fs.Args(), Dir: dir, Env: environ(), Memory: *mem, CPUs: *cpus, Timeout: *timeout, ICount: *icount,
			Stdout: stdout, Stderr: stderr,
		})
		if err != nil {
			return 0, err
		}
		if worst == 0 {
			worst = code
		}
	}
	return worst, nil
}

// environ is the caller's environment; an ordinary user's PATH lacks the
// directories of ip, rdma and modprobe, and in the guest everybody is root.
func environ() []string {
	return append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
}
