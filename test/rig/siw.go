//go:build linux

package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// buildSiw compiles Debian's own siw source against Debian's own headers, both
// unpacked below tmp/build, and returns the module.
func buildSiw(ctx context.Context, log io.Writer, tmp, series, release string) (string, error) {
	root, headers := filepath.Join(tmp, "build"), headersBelow(tmp, release)
	if err := relocate(root, headers); err != nil {
		return "", err
	}
	siw := filepath.Join(tmp, "siw")
	if err := os.Mkdir(siw, 0o755); err != nil {
		return "", err
	}
	top := "linux-source-" + series
	archive := filepath.Join(root, "usr/src", top+".tar.xz")
	if err := command(ctx, log, tmp, "tar", "-x", "-I", "xz -T0", "-f", archive, "-C", siw,
		"--strip-components=5", top+"/drivers/infiniband/sw/siw"); err != nil {
		return "", err
	}
	if err := os.Remove(archive); err != nil {
		return "", err
	}
	if err := command(ctx, log, tmp, "make", "-j", strconv.Itoa(runtime.NumCPU()), "--no-print-directory", "-C", headers, "M="+siw, "CONFIG_RDMA_SIW=m", "modules"); err != nil {
		return "", fmt.Errorf("build siw.ko: %w", err)
	}
	ko := filepath.Join(siw, "siw.ko")
	return ko, command(ctx, log, tmp, "strip", "--strip-debug", ko)
}

// headersBelow is where the headers package is unpacked.
func headersBelow(tmp, release string) string {
	return filepath.Join(tmp, "build/usr/src/linux-headers-"+release)
}

// relocate turns the packages' absolute paths into paths below root, and
// removes the vmlinux of newer headers, whose presence makes the build ask for
// pahole.
func relocate(root, headers string) error {
	mk := filepath.Join(headers, "Makefile")
	text, err := os.ReadFile(mk)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte("include /usr/src"), []byte("include "+root+"/usr/src"))
	if err := os.WriteFile(mk, text, 0o644); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(headers, "vmlinux")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	links, err := filepath.Glob(filepath.Join(root, "usr/src/linux-headers-*/*"))
	if err != nil {
		return err
	}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(to, "/usr/") {
			continue
		}
		if err := os.Remove(link); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(root, to), link); err != nil {
			return err
		}
	}
	return nil
}
