//go:build linux

package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Kernel is a kernel ready to boot: its directory holds vmlinuz and
// lib/modules/RELEASE with the modules the tests need, siw.ko among them
// unless the kernel lacks it.
type Kernel struct {
	Series  string
	Release string // what uname -r says
	Dir     string
}

// Image is the compressed kernel; for [UML] the program that is one.
func (k Kernel) Image() string {
	if k.uml() {
		return filepath.Join(k.Dir, "linux")
	}
	return filepath.Join(k.Dir, "vmlinuz")
}

// Modules is the directory modprobe expects under /lib/modules.
func (k Kernel) Modules() string { return filepath.Join(k.Dir, "lib/modules", k.Release) }

// CacheDir is where kernels are kept: goverbs below the user's cache directory.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep kernels: %w: set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(base, "goverbs"), nil
}

// Open finds a series in the cache; [Fetch] puts it there.
func Open(series string) (Kernel, error) {
	dir, err := CacheDir()
	if err != nil {
		return Kernel{}, err
	}
	target, err := os.Readlink(filepath.Join(dir, series))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Kernel{}, fmt.Errorf("no kernel %s in %s: run `go run ./test/cmd/vm fetch -kernel %s`: %w", series, dir, series, err)
		}
		return Kernel{}, err
	}
	k := Kernel{Series: series, Release: target, Dir: filepath.Join(dir, target)}
	if err := checkUML(k); err != nil {
		return Kernel{}, err
	}
	files := []string{k.Image(), filepath.Join(k.Modules(), "modules.dep")}
	if hasSiw(series) {
		files = append(files, filepath.Join(k.Modules(), movableFile))
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return Kernel{}, fmt.Errorf("kernel %s is incomplete (%w): delete %s and run `go run ./test/cmd/vm fetch -kernel %s`", series, err, dir, series)
		}
	}
	return k, nil
}

// publish moves a finished kernel into the cache and points its series at it.
func publish(cache, tmp, series, release string) error {
	final := filepath.Join(cache, release)
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	if err := os.Rename(tmp, final); err != nil {
		return err
	}
	link := filepath.Join(cache, series)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(release, link)
}

// lock makes two fetches wait for each other.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return func() { f.Close() }, nil
}
