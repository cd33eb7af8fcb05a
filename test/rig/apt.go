//go:build linux

package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// Tools are the Debian packages a kernel build and a guest need. The last two
// lines are the C peers of the tests; the guest finds them on the host's root.
var Tools = []string{
	"qemu-system-x86", "make", "gcc", "gcc-12", "binutils", "libc6-dev", "xz-utils", "kmod",
	"iproute2", "rdmacm-utils", "ibverbs-utils", "ibverbs-providers", "librdmacm1", "perftest",
}

// offer is one version of one package that apt can get.
type offer struct{ name, version string }

// parseMadison reads the output of apt-cache madison.
func parseMadison(text string) []offer {
	var offers []offer
	for line := range strings.Lines(text) {
		f := strings.Split(line, "|")
		if len(f) < 3 || !strings.Contains(f[2], "Packages") {
			continue
		}
		offers = append(offers, offer{strings.TrimSpace(f[0]), strings.TrimSpace(f[1])})
	}
	return offers
}

// missingTools lists those Tools that are not installed.
func missingTools() []string {
	return slices.DeleteFunc(slices.Clone(Tools), installed)
}

// becomeRoot is what to put before a command that needs root.
func becomeRoot() ([]string, error) {
	if os.Geteuid() == 0 {
		return nil, nil
	}
	if _, err := exec.LookPath("sudo"); err != nil {
		return nil, fmt.Errorf("not root: %w", err)
	}
	return []string{"sudo", "DEBIAN_FRONTEND=noninteractive"}, nil
}

// refresh makes apt know its newest packages and installs missing tools, and
// nothing else. Without root that is only an error if a tool is missing.
func refresh(ctx context.Context, log io.Writer, missing []string) error {
	sudo, err := becomeRoot()
	if err != nil {
		if len(missing) == 0 {
			return nil
		}
		return fmt.Errorf("%w: run as root: apt-get update && apt-get install %s", err, strings.Join(missing, " "))
	}
	// apt waits for another apt's lock rather than fail.
	apt := append(sudo, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")
	if err := command(ctx, log, "", append(apt, "update")...); err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	fmt.Fprintln(log, "vm: installing", strings.Join(missing, " "))
	return command(ctx, log, "", slices.Concat(apt, []string{"install", "-y", "--no-install-recommends"}, missing)...)
}

func installed(pkg string) bool {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", pkg).Output()
	return err == nil && strings.HasPrefix(string(out), "ii")
}

// findKernel asks apt for the newest kernel of a series.
func findKernel(ctx context.Context, series string) (packageSet, error) {
	names, err := output(ctx, "apt-cache", "pkgnames", "linux-image-"+series+".")
	if err != nil {
		return packageSet{}, err
	}
	images := imageNames(strings.Fields(names), series)
	var ask []string
	for _, image := range images {
		p, _ := partners(image, series)
		ask = append(ask, p...)
	}
	slices.Sort(ask)
	text, err := output(ctx, append([]string{"apt-cache", "madison"}, slices.Compact(ask)...)...)
	if err != nil {
		return packageSet{}, err
	}
	return choose(parseMadison(text), images, series)
}

// command runs a program with its output on log; a failure names it.
func command(ctx context.Context, log io.Writer, dir string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	if err := cmd.Run(); err != nil {
		return explain(argv, err, "")
	}
	return nil
}

func output(ctx context.Context, argv ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", explain(argv, err, errs.String())
	}
	return out.String(), nil
}

func explain(argv []string, err error, text string) error {
	line := strings.Join(argv, " ")
	if len(line) > 200 {
		line = line[:200] + " …"
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s: not found: the test machine is set up with apt, on Debian 12: %w", argv[0], err)
	}
	return fmt.Errorf("%s: %w %s", line, err, strings.TrimSpace(text))
}
