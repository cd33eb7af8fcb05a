//go:build linux

package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// assemble makes the directory that stays in the cache: the kernel, the few
// modules, uncompressed so that anything can load them, and modprobe's tables.
func assemble(ctx context.Context, log io.Writer, image, ready, series string, pkgs packageSet) error {
	from := filepath.Join(image, "lib/modules", pkgs.Release)
	to := filepath.Join(ready, "lib/modules", pkgs.Release)
	if err := command(ctx, log, "", "depmod", "-b", image, pkgs.Release); err != nil {
		return err
	}
	dep, err := os.ReadFile(filepath.Join(from, "modules.dep"))
	if err != nil {
		return err
	}
	builtin, err := os.ReadFile(filepath.Join(from, "modules.builtin"))
	if err != nil {
		return err
	}
	m := parseModulesDep(string(dep))
	if err := m.required(wanted(series), string(builtin)); err != nil {
		return err
	}
	files, _ := m.order(wanted(series))
	for _, f := range files {
		if err := copyModule(ctx, log, filepath.Join(from, f), filepath.Join(to, f)); err != nil {
			return err
		}
	}
	for _, f := range []string{"modules.order", "modules.builtin", "modules.builtin.modinfo"} {
		if err := copyFile(filepath.Join(from, f), filepath.Join(to, f)); err != nil {
			return err
		}
	}
	if err := copyFile(kernelFile(image, pkgs.Release), filepath.Join(ready, "vmlinuz")); err != nil {
		return err
	}
	record := fmt.Sprintf("  %s\n", strings.Join(pkgs.Packages, "\n  "))
	if err := os.WriteFile(filepath.Join(ready, "packages"), []byte(record), 0o644); err != nil {
		return err
	}
	return command(ctx, log, "", "depmod", "-b", ready, pkgs.Release)
}

// kernelFile is the compressed kernel, which newer packages keep beside the modules.
func kernelFile(image, release string) string {
	file := filepath.Join(image, "boot/vmlinuz-"+release)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	return filepath.Join(image, "lib/modules", release, "vmlinuz")
}

func copyModule(ctx context.Context, log io.Writer, from, to string) error {
	if err := copyFile(from, to); err != nil {
		return err
	}
	if strings.HasSuffix(to, ".xz") {
		return command(ctx, log, "", "xz", "-d", to)
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
