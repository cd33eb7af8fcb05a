//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// umlSource is the package that [UML] is built from.
const umlSource = "linux-source-6.12"

// fetchUML builds [UML] from the newest source on offer, which takes minutes.
func fetchUML(ctx context.Context, log io.Writer, cache string) error {
	start := time.Now()
	tmp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	version, err := newestSource(ctx)
	if err != nil {
		return err
	}
	pkgs := packageSet{Release: umlRelease(version, umlConfig), Version: version, Packages: []string{umlSource + "=" + version}}
	fmt.Fprintf(log, "vm: kernel %s: downloading %s\n", UML, pkgs.Packages[0])
	if err := download(ctx, log, nil, tmp, pkgs); err != nil {
		return err
	}
	out, err := buildUML(ctx, log, tmp, pkgs.Release)
	if err != nil {
		return err
	}
	ready := filepath.Join(tmp, "ready")
	if err := assembleUML(ctx, log, tmp, out, ready, pkgs); err != nil {
		return err
	}
	if err := publish(cache, ready, UML, pkgs.Release); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: kernel %s: ready after %s\n", UML, time.Since(start).Round(time.Second))
	return nil
}

// newestSource is the newest version of [umlSource].
func newestSource(ctx context.Context) (string, error) {
	text, err := output(ctx, apt(nil).cache("madison", umlSource)...)
	if err != nil {
		return "", err
	}
	version := ""
	for _, o := range parseMadison(text) {
		if version == "" || newer(o.version, version) {
			version = o.version
		}
	}
	if version == "" {
		return "", fmt.Errorf("apt knows no %s: check that /etc/apt names bookworm-security, then run apt-get update", umlSource)
	}
	return version, nil
}

// buildUML returns the directory with what make made.
func buildUML(ctx context.Context, log io.Writer, tmp, release string) (string, error) {
	fmt.Fprintf(log, "vm: kernel %s: unpacking the source\n", UML)
	source, out := filepath.Join(tmp, "source"), filepath.Join(tmp, "out")
	for _, d := range []string{source, out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return "", err
		}
	}
	archive := filepath.Join(tmp, "build/usr/src", umlSource+".tar.xz")
	if err := command(ctx, log, tmp, "tar", "-x", "-I", "xz -T0", "-f", archive, "-C", source, "--strip-components=1"); err != nil {
		return "", err
	}
	if err := widenRegisters(filepath.Join(source, "arch/x86/um/user-offsets.c")); err != nil {
		return "", err
	}
	if err := offerShortSlices(filepath.Join(source, "arch/um/Kconfig")); err != nil {
		return "", err
	}
	if err := configure(ctx, tmp, source, out); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "vm: kernel %s: compiling, about seven minutes on two CPUs\n", UML)
	suffix := release[strings.Index(release, "-"):]
	if err := makeUML(ctx, log, source, "O="+out, "-j", strconv.Itoa(runtime.NumCPU()), "LOCALVERSION="+suffix, "all"); err != nil {
		return "", err
	}
	made, err := os.ReadFile(filepath.Join(out, "include/config/kernel.release"))
	if err == nil && strings.TrimSpace(string(made)) != release {
		err = fmt.Errorf("built %s, expected %s", strings.TrimSpace(string(made)), release)
	}
	return out, err
}

// makeUML runs make in the source, or in the directory of its output.
func makeUML(ctx context.Context, log io.Writer, dir string, args ...string) error {
	p := &progress{log: log, of: 1400}
	err := command(ctx, p, "", slices.Concat([]string{"make", "--no-print-directory", "-C", dir, "ARCH=um"}, args)...)
	if err != nil {
		return errors.Join(err, fmt.Errorf("the end of what make said:\n%s", p.tail))
	}
	return nil
}

// assembleUML makes the directory that stays: the kernel and its modules, gvmovable.ko
// among them.
func assembleUML(ctx context.Context, log io.Writer, tmp, out, ready string, pkgs packageSet) error {
	if err := makeUML(ctx, log, out, "INSTALL_MOD_PATH="+ready, "INSTALL_MOD_STRIP=1", "modules_install"); err != nil {
		return err
	}
	modules := filepath.Join(ready, "lib/modules", pkgs.Release)
	if err := os.Remove(filepath.Join(modules, "build")); err != nil { // a link to the deleted source
		return err
	}
	ko, err := buildMovable(ctx, log, tmp, out, "ARCH=um")
	if err != nil {
		return err
	}
	if err := copyFile(ko, filepath.Join(modules, movableFile)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(ready, "packages"), []byte("  "+strings.Join(pkgs.Packages, "\n  ")+"\n"), 0o644); err != nil {
		return err
	}
	if err := command(ctx, log, "", "strip", "--strip-debug", "-o", filepath.Join(ready, "linux"), filepath.Join(out, "linux")); err != nil {
		return err
	}
	return command(ctx, log, "", "depmod", "-b", ready, pkgs.Release)
}
