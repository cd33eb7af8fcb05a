//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// keyring is what every suite has to be signed with, whatever mirror it is on.
// The keys of Debian 12 sign the backports of Debian 13 too.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// openSuite makes a configuration of apt that knows one suite of Debian, and
// that alone. It lives below dir; the system's sources and lists stay as they
// are, its proxies and credentials serve here too.
func openSuite(ctx context.Context, log io.Writer, dir, suite string) (apt, error) {
	return openArchive(ctx, log, dir, suite, suiteLine)
}

// openSources is openSuite for the suite's sources.
func openSources(ctx context.Context, log io.Writer, dir, suite string) (apt, error) {
	return openArchive(ctx, log, dir, suite, sourceLine)
}

func openArchive(ctx context.Context, log io.Writer, dir, suite string, entry func(mirror, suite string) string) (apt, error) {
	targets, err := output(ctx, apt(nil).get("indextargets", "--format", targetFormat, "Created-By: Packages")...)
	if err != nil {
		return nil, err
	}
	mirror, err := findMirror(targets)
	if err != nil {
		return nil, err
	}
	private := filepath.Join(dir, "apt")
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(private, d), 0o700); err != nil {
			return nil, err
		}
	}
	list := filepath.Join(private, "sources.list")
	if err := os.WriteFile(list, []byte(entry(mirror, suite)), 0o600); err != nil {
		return nil, err
	}
	a := suiteApt(private, list)
	if err := command(ctx, log, "", a.get("update", "--error-on=any")...); err != nil {
		return nil, fmt.Errorf("ask the mirror for %s: %w", suite, err)
	}
	return a, nil
}

func suiteLine(mirror, suite string) string {
	return fmt.Sprintf("deb [arch=amd64 signed-by=%s] %s %s main\n", keyring, mirror, suite)
}

func sourceLine(mirror, suite string) string {
	return fmt.Sprintf("deb-src [signed-by=%s] %s %s main\n", keyring, mirror, suite)
}

// suiteApt clears the default release too: apt refuses one that no source has.
func suiteApt(private, list string) apt {
	return apt{
		"-o", "Dir::State=" + filepath.Join(private, "state"), "-o", "Dir::Cache=" + filepath.Join(private, "cache"),
		"-o", "Dir::Etc::sourcelist=" + list, "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Default-Release=",
	}
}

// targetFormat makes apt print where its packages come from, in lines. That
// spares us from reading its two formats of sources.
const targetFormat = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"

// findMirror picks the mirror of Debian's archive that the system uses; the
// security archive, which has another label, holds no backports.
func findMirror(targets string) (string, error) {
	for line := range strings.Lines(targets) {
		uri, ok := strings.CutPrefix(strings.TrimSpace(line), "Debian|Debian|")
		if ok && !strings.HasPrefix(uri, "cdrom:") {
			return uri, nil
		}
	}
	return "", errors.New("apt knows no mirror of Debian's archive: check that /etc/apt names bookworm, then run apt-get update")
}
