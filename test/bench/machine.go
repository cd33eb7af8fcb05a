//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/test/rig"
)

// machine describes the machine and the versions of a measurement.
type machine struct {
	CPU      string            `json:"cpu"`
	CPUs     int               `json:"cpus"`
	Kernel   string            `json:"kernel"` // kernel of the host
	Versions map[string]string `json:"versions"`
}

// versioned holds the Debian packages that the figures depend on.
var versioned = []string{"libibverbs1", "librdmacm1", "perftest", "iproute2", "gcc", "qemu-system-x86"}

func thisMachine(ctx context.Context) machine {
	m := machine{CPUs: runtime.NumCPU(), Versions: map[string]string{"go": runtime.Version()}}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		_, after, _ := strings.Cut(string(text), "model name")
		line, _, _ := strings.Cut(after, "\n")
		m.CPU = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), ":"))
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	for _, pkg := range versioned {
		out, err := exec.CommandContext(ctx, "dpkg-query", "-W", "-f", "${Version}", pkg).Output()
		if err == nil {
			m.Versions[pkg] = string(out)
		}
	}
	for _, series := range []string{"6.12", "uml-6.12"} {
		if k, err := rig.Open(series); err == nil {
			m.Versions["kernel "+series] = k.Release
		}
	}
	return m
}

// commit returns the measured commit, followed by a + if files have changed since.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty=+", "--abbrev=10").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
