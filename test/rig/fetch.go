//go:build linux

package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Fetch makes every given series ready to boot: installs missing tools,
// downloads the kernel packages without installing them, builds siw.ko where
// the compiler can, and keeps the files that a boot needs, among them the emulator, and [NewerRDMA].
// A series that is in the cache already stays as it is. Progress goes to log; the first
// run needs root or sudo, about 1 GB of disk while it works, and two minutes; [UML] needs
// 3 GB and seven minutes more.
func Fetch(ctx context.Context, log io.Writer, series ...string) error {
	addSbin()
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	unlock, err := lock(cache)
	if err != nil {
		return err
	}
	defer unlock()
	var missing []string
	for _, s := range series {
		if _, err := Open(s); err != nil {
			missing = append(missing, s)
		}
	}
	_, noRDMA := NewerRDMA()
	_, noQemu := lookQemu()
	if tools := missingTools(series); len(missing) > 0 || len(tools) > 0 || noRDMA != nil || noQemu != nil {
		if err := refresh(ctx, log, tools); err != nil {
			return fmt.Errorf("set up the test machine: %w", err)
		}
	}
	if err := fetchRDMA(ctx, log, cache); err != nil {
		return fmt.Errorf("fetch a newer rdma: %w", err)
	}
	if err := fetchQemu(ctx, log, cache); err != nil {
		return fmt.Errorf("fetch a newer emulator: %w", err)
	}
	for _, s := range missing {
		if s == UML {
			err = fetchUML(ctx, log, cache)
		} else {
			err = fetchKernel(ctx, log, cache, s)
		}
		if err != nil {
			return fmt.Errorf("fetch kernel %s: %w", s, err)
		}
	}
	for _, s := range series {
		if err := describe(log, s); err != nil {
			return err
		}
	}
	return nil
}

// FetchGuest makes one of Debian's series ready to boot, as [Fetch] does, but without
// programs that only tests use. It asks nobody if all are there.
func FetchGuest(ctx context.Context, log io.Writer, series string) (Kernel, error) {
	addSbin()
	missing := slices.DeleteFunc(slices.Clone(guestTools), installed)
	k, noKernel := Open(series)
	_, noQemu := lookQemu()
	if len(missing) == 0 && noKernel == nil && noQemu == nil {
		return k, nil
	}
	cache, err := CacheDir()
	if err != nil {
		return Kernel{}, err
	}
	unlock, err := lock(cache)
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	if err := refresh(ctx, log, missing); err != nil {
		return Kernel{}, fmt.Errorf("set up the test machine: %w", err)
	}
	if err := fetchQemu(ctx, log, cache); err != nil {
		return Kernel{}, fmt.Errorf("fetch a newer emulator: %w", err)
	}
	if k, err := Open(series); err == nil { // perhaps fetched while this process waited for the lock
		return k, nil
	}
	if err := fetchKernel(ctx, log, cache, series); err != nil {
		return Kernel{}, fmt.Errorf("fetch kernel %s: %w", series, err)
	}
	return Open(series)
}

// addSbin adds the directories of depmod to the path, which an ordinary user's lacks.
func addSbin() { os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") }

// describe prints a kernel's release and the packages that it is made from.
func describe(log io.Writer, series string) error {
	k, err := Open(series)
	if err != nil {
		return err
	}
	packages, err := os.ReadFile(filepath.Join(k.Dir, "packages"))
	if err != nil {
		return err
	}
	without := ""
	if k.Lacks() != "" {
		without = " without " + k.Lacks()
	}
	fmt.Fprintf(log, "vm: kernel %s is %s%s, from\n%s", series, k.Release, without, packages)
	return nil
}

func fetchKernel(ctx context.Context, log io.Writer, cache, series string) error {
	start := time.Now()
	tmp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var a apt
	if suite := foreign[series]; suite != "" {
		if a, err = openSuite(ctx, log, tmp, suite); err != nil {
			return fmt.Errorf("%w (`make KERNELS=...` can do without this one)", err)
		}
	}
	pkgs, err := findKernel(ctx, a, series)
	if err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: kernel %s: downloading %s\n", series, pkgs.Release)
	if err := download(ctx, log, a, tmp, pkgs); err != nil {
		return err
	}
	image, ready := filepath.Join(tmp, "image"), filepath.Join(tmp, "ready")
	if err := mergeUsr(image); err != nil {
		return err
	}
	if err := addSiw(ctx, log, tmp, image, series, pkgs.Release); err != nil {
		return err
	}
	if err := assemble(ctx, log, image, ready, series, pkgs); err != nil {
		return err
	}
	if err := publish(cache, ready, series, pkgs.Release); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: kernel %s: ready after %s\n", series, time.Since(start).Round(time.Second))
	return nil
}

// addSiw builds siw.ko, for a series that can have it, into the unpacked image,
// and gvmovable.ko.
func addSiw(ctx context.Context, log io.Writer, tmp, image, series, release string) error {
	if !hasSiw(series) {
		return nil
	}
	fmt.Fprintf(log, "vm: kernel %s: building siw.ko\n", series)
	ko, err := buildSiw(ctx, log, tmp, series, release)
	if err != nil {
		return err
	}
	modules := filepath.Join(image, "lib/modules", release)
	if err := copyFile(ko, filepath.Join(modules, "kernel/drivers/infiniband/sw/siw/siw.ko")); err != nil {
		return err
	}
	if ko, err = buildMovable(ctx, log, tmp, headersBelow(tmp, release)); err != nil {
		return err
	}
	return copyFile(ko, filepath.Join(modules, movableFile))
}
