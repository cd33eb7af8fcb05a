//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
)

const (
	netdev  = "goverbs-demo"
	address = "10.99.9.9"
	port    = ":7471"
)

var sizes = []int{1, 4 << 10, 1 << 20, 64 << 20}

// show makes a device, moves data of all sizes and takes the device away.
func show(ctx context.Context, bin string) (err error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return err
	}
	fmt.Printf("Linux %s\n\n", unix.ByteSliceToString(uts.Release[:]))
	// siw of Linux 6.1 holds even root to the limit on pinned memory.
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
		return fmt.Errorf("raise RLIMIT_MEMLOCK: %w", err)
	}
	if err := addNetdev(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, delNetdev()) }()
	name, err := freeName()
	if err != nil {
		return err
	}
	if err := step(ctx, bin, "rdmalink", "add", name, "type", "siw", "netdev", netdev); err != nil {
		return err
	}
	// Also after an interrupt, so not under ctx.
	defer func() { err = errors.Join(err, step(context.Background(), bin, "rdmalink", "del", name)) }()
	if err := step(ctx, bin, "rdmalink", "show", name); err != nil {
		return err
	}
	return exchangeAll(ctx, bin)
}

// addNetdev makes a network device for siw to sit on, one with a hardware
// address and an IP address of its own.
func addNetdev() error {
	fmt.Printf("$ ip link add %s type dummy; ip addr add %s/32 dev %[1]s; ip link set %[1]s up\n", netdev, address)
	dummy := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: netdev}}
	if err := netlink.LinkAdd(dummy); err != nil {
		return fmt.Errorf("add network device %s: %w", netdev, err)
	}
	addr, err := netlink.ParseAddr(address + "/32")
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(dummy, addr), netlink.LinkSetUp(dummy))
}

func delNetdev() error {
	return netlink.LinkDel(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: netdev}})
}

// freeName returns a name that the machine does not use.
func freeName() (string, error) {
	var nl netlinkrdma.Client
	devices, err := nl.Devices()
	if err != nil {
		return "", err
	}
	taken := make(map[string]bool)
	for _, d := range devices {
		taken[d.Name] = true
	}
	for i := 0; ; i++ {
		if name := "siw" + strconv.Itoa(i); !taken[name] {
			return name, nil
		}
	}
}

func step(ctx context.Context, bin, name string, args ...string) error {
	fmt.Println("$", name, strings.Join(args, " "))
	return stream(ctx, filepath.Join(bin, name), args...)
}

// exchangeAll runs the server beside one client after the other.
func exchangeAll(ctx context.Context, bin string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []string{"-s", address + port, "-n", strconv.Itoa(len(sizes))}
	fmt.Println("\n$ exchange", strings.Join(args, " "), "&")
	server := exec.CommandContext(ctx, filepath.Join(bin, "exchange"), args...)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	relay(lines)
	for _, size := range sizes {
		if err := step(ctx, bin, "exchange", "-c", address+port, "-size", strconv.Itoa(size)); err != nil {
			cancel()
			return errors.Join(err, server.Wait())
		}
		relay(lines)
	}
	if err := server.Wait(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	fmt.Println("\nAll data came back unchanged.")
	return nil
}

// relay passes on the server's next line.
func relay(lines *bufio.Scanner) {
	if lines.Scan() {
		fmt.Println(lines.Text())
	}
}
