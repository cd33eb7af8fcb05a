//go:build linux

package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Fetch makes every given series ready to boot: installs missing tools,
// downloads the kernel packages without installing them, builds siw.ko, and
// keeps what a boot needs. A series that is in the cache already stays as it
// is. Progress goes to log; the first run needs root or sudo, about 1 GB of
// disk while it works, and two minutes.
func Fetch(ctx context.Context, log io.Writer, series ...string) error {
	// depmod is not on an ordinary user's path.
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
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
	if tools := missingTools(); len(missing) > 0 || len(tools) > 0 {
		if err := refresh(ctx, log, tools); err != nil {
			return fmt.Errorf("set up the test machine: %w", err)
		}
	}
	for _, s := range missing {
		if err := fetchKernel(ctx, log, cache, s); err != nil {
			return fmt.Errorf("fetch kernel %s: %w", s, err)
		}
	}
	for _, s := range series {
		k, err := Open(s)
		if err != nil {
			return err
		}
		version, err := os.ReadFile(filepath.Join(k.Dir, "packages"))
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "vm: kernel %s is %s, from\n%s", s, k.Release, version)
	}
	return nil
}

func fetchKernel(ctx context.Context, log io.Writer, cache, series string) error {
	start := time.Now()
	pkgs, err := findKernel(ctx, series)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fmt.Fprintf(log, "vm: kernel %s: downloading %s\n", series, pkgs.Release)
	if err := download(ctx, log, tmp, pkgs); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: kernel %s: unpacking and building siw.ko\n", series)
	ko, err := buildSiw(ctx, log, tmp, series, pkgs.Release)
	if err != nil {
		return err
	}
	ready := filepath.Join(tmp, "ready")
	if err := assemble(ctx, log, filepath.Join(tmp, "image"), ready, ko, pkgs); err != nil {
		return err
	}
	if err := publish(cache, ready, series, pkgs.Release); err != nil {
		return err
	}
	fmt.Fprintf(log, "vm: kernel %s: ready after %s\n", series, time.Since(start).Round(time.Second))
	return nil
}

// download unpacks the image to tmp/image, the rest to tmp/build. apt drops to
// its own user for downloads and warns where that user cannot write; "sandbox"
// root keeps it quiet and works for any caller.
func download(ctx context.Context, log io.Writer, tmp string, pkgs packageSet) error {
	argv := append([]string{"apt-get", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "-q", "download"}, pkgs.all()...)
	if err := command(ctx, log, tmp, argv...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		into := "build"
		if ok, _ := filepath.Match("linux-image-*", filepath.Base(deb)); ok {
			into = "image"
		}
		if err := command(ctx, log, tmp, "dpkg-deb", "-x", deb, into); err != nil {
			return err
		}
		if err := os.Remove(deb); err != nil {
			return err
		}
	}
	return nil
}
