//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// guestTools are the Debian packages that a kernel build and a guest need.
var guestTools = []string{"qemu-system-x86", "make", "gcc", "gcc-12", "binutils", "libc6-dev", "xz-utils", "kmod"}

// Tools are those, and programs that only tests need: C peers, and shells. The guest finds
// them on the host's root.
var Tools = append(slices.Clone(guestTools),
	"iproute2", "rdmacm-utils", "ibverbs-utils", "ibverbs-providers", "librdmacm1", "perftest", "strace",
	"bash", "zsh", "fish",
)

// apt is a configuration of apt: the options that make it, given to each of its
// commands. None is the system's.
type apt []string

func (a apt) get(args ...string) []string {
	// apt drops to its own user for downloads and warns where that user cannot
	// write; "sandbox" root keeps it quiet and works for any caller.
	return slices.Concat([]string{"apt-get"}, args, []string{"-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3"}, a)
}

func (a apt) cache(args ...string) []string { return slices.Concat([]string{"apt-cache"}, args, a) }

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

// umlTools lists the tools that the build of [UML] needs in addition.
var umlTools = []string{"flex", "bison", "bc"}

// missingTools lists those that the series need and that are not installed.
func missingTools(series []string) []string {
	tools := slices.Clone(Tools)
	if slices.Contains(series, UML) {
		tools = append(tools, umlTools...)
	}
	return slices.DeleteFunc(tools, installed)
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
func findKernel(ctx context.Context, a apt, series string) (packageSet, error) {
	names, err := output(ctx, a.cache("pkgnames", "linux-image-"+series+".")...)
	if err != nil {
		return packageSet{}, err
	}
	images := imageNames(strings.Fields(names), series)
	ask := []string{"linux-image-amd64"}
	for _, image := range images {
		ask = slices.Concat(append(partners(image, series), ask)...)
	}
	slices.Sort(ask)
	text, err := output(ctx, a.cache(append([]string{"madison"}, slices.Compact(ask)...)...)...)
	if err != nil {
		return packageSet{}, err
	}
	offers := parseMadison(text)
	p, err := choose(offers, images, series)
	if errors.Is(err, errIncomplete) {
		return p, fmt.Errorf("%w: %s", err, whereTo(offers, series))
	}
	return p, err
}

// whereTo says what to do about a series that is not on offer. A suite of
// backports moves on: it keeps a series for some months after the next.
func whereTo(offers []offer, series string) string {
	suite := foreign[series]
	if suite == "" {
		return "check that /etc/apt names bookworm and bookworm-security, then run apt-get update"
	}
	has := "nothing"
	if i := slices.IndexFunc(offers, func(o offer) bool { return o.name == "linux-image-amd64" }); i >= 0 {
		has = offers[i].version
	}
	return fmt.Sprintf("%s has moved on to %s: name a newer series in test/rig/series.go, or leave this one out (make KERNELS=...)", suite, has)
}
