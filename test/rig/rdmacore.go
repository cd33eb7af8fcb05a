//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The newest rdma-core stands in sourceSuite. Its Python modules need a newer Cython than
// Debian 12's, and cythonSuite has one whose Python code runs on Debian 12.
const (
	rdmaCore    = "rdma-core"
	sourceSuite = "sid"
	cython      = "cython3"
	cythonSuite = "trixie"
)

// rdmaCoreTools are the packages that the build of rdma-core needs.
var rdmaCoreTools = []string{"cmake", "ninja-build", "gcc", "libc6-dev", "pkg-config", "libnl-3-dev", "libnl-route-3-dev", "libudev-dev",
	"python3-dev"}

// RDMACore is a build of rdma-core that is newer than Debian 12's.
type RDMACore struct {
	Version string // of Debian's source package, "65.0-1.1"
	Dir     string // the sources, with the build below build
}

// NewestRDMACore finds the build in the cache. [FetchRDMACore] puts it there.
func NewestRDMACore() (RDMACore, error) {
	cache, err := CacheDir()
	if err != nil {
		return RDMACore{}, err
	}
	name, err := os.Readlink(filepath.Join(cache, rdmaCore))
	if err != nil {
		return RDMACore{}, fmt.Errorf("no newer rdma-core: run `go run ./test/cmd/vm rdma-core`: %w", err)
	}
	c := RDMACore{Version: strings.TrimPrefix(name, rdmaCore+"-"), Dir: filepath.Join(cache, name)}
	_, err = os.Stat(filepath.Join(c.Dir, "build/bin/rping"))
	return c, err
}

// Tests is the directory with the tests of the Python modules.
func (c RDMACore) Tests() string { return filepath.Join(c.Dir, "tests") }

// Env returns the variables with which programs, compilers and Python find this build before
// the installed one.
func (c RDMACore) Env() []string {
	build := filepath.Join(c.Dir, "build")
	lib, include := filepath.Join(build, "lib"), filepath.Join(build, "include")
	return []string{
		"PATH=" + filepath.Join(build, "bin") + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"LD_LIBRARY_PATH=" + lib, "LIBRARY_PATH=" + lib, "CPATH=" + include, "PYTHONPATH=" + filepath.Join(build, "python"),
	}
}

// FetchRDMACore builds the newest rdma-core that Debian has, from its source package, with
// apt, and installs what the build needs. It takes two minutes. A build that is in the cache stays.
func FetchRDMACore(ctx context.Context, log io.Writer) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	unlock, err := lock(cache)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := NewestRDMACore()
	if err == nil {
		fmt.Fprintf(log, "vm: rdma-core %s is in %s\n", c.Version, c.Dir)
		return nil
	}
	if err := refresh(ctx, log, slices.DeleteFunc(slices.Clone(rdmaCoreTools), installed)); err != nil {
		return fmt.Errorf("get ready to build rdma-core: %w", err)
	}
	newest := func(offers []offer) (string, error) {
		if len(offers) == 0 {
			return "", fmt.Errorf("%s has no %s", cythonSuite, cython)
		}
		return offers[0].version, nil
	}
	return fromSuite(ctx, log, cache, cythonSuite, []string{cython}, newest, func(image string) error {
		return buildRDMACore(ctx, log, cache, filepath.Join(image, "usr/lib/python3/dist-packages"))
	})
}

// buildRDMACore builds in the place where the build stays, because libibverbs keeps the path of
// its providers. The link to it says that it is complete.
func buildRDMACore(ctx context.Context, log io.Writer, cache, cythonModules string) error {
	start := time.Now()
	tmp, err := os.MkdirTemp(cache, "source-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	a, err := openSources(ctx, log, tmp, sourceSuite)
	if err != nil {
		return err
	}
	version, err := sourceVersion(ctx, a)
	if err != nil {
		return err
	}
	// The archive is all that the build needs, and apt checks it.
	if err := command(ctx, log, tmp, a.get("source", "--download-only", "--tar-only", rdmaCore+"="+version)...); err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(tmp, rdmaCore+"_*.orig.tar.*"))
	if err != nil || len(archives) != 1 {
		return errors.Join(err, fmt.Errorf("apt got the archives %q, expected one", archives))
	}
	name := rdmaCore + "-" + version
	dir, link := filepath.Join(cache, name), filepath.Join(cache, rdmaCore)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "build"), 0o755)); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: building rdma-core %s, about two minutes on two CPUs\n", version)
	p := &progress{log: log, of: 500}
	for _, argv := range [][]string{
		{"tar", "-x", "-f", archives[0], "-C", dir, "--strip-components=1"},
		{"env", "PYTHONPATH=" + cythonModules, "cmake", "-S", dir, "-B", filepath.Join(dir, "build"),
			"-GNinja", "-DPYTHON_EXECUTABLE=/usr/bin/python3", "-DIN_PLACE=1", "-DNO_MAN_PAGES=1", "-DCMAKE_BUILD_TYPE=Release"},
		{"env", "PYTHONPATH=" + cythonModules, "ninja", "-C", filepath.Join(dir, "build")},
	} {
		if err := command(ctx, p, "", argv...); err != nil {
			return errors.Join(err, fmt.Errorf("the end of its output:\n%s", p.tail))
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "build/python/pyverbs/__init__.py")); err != nil {
		return fmt.Errorf("the build left out the Python modules: %w", err)
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(name, link); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: rdma-core %s: ready after %s\n", version, time.Since(start).Round(time.Second))
	return nil
}

// sourceVersion is the newest version of the source package that apt has.
func sourceVersion(ctx context.Context, a apt) (string, error) {
	text, err := output(ctx, a.cache("showsrc", "--only-source", rdmaCore)...)
	if err != nil {
		return "", err
	}
	version := ""
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "Version: "); ok && (version == "" || newer(strings.TrimSpace(v), version)) {
			version = strings.TrimSpace(v)
		}
	}
	if version == "" {
		return "", fmt.Errorf("%s has no source of %s", sourceSuite, rdmaCore)
	}
	return version, nil
}
