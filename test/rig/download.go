//go:build linux

package rig

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// download unpacks the packages that a module is built with to tmp/build, the rest to
// tmp/image.
func download(ctx context.Context, log io.Writer, a apt, tmp string, pkgs packageSet) error {
	if err := command(ctx, log, tmp, a.get(append([]string{"download"}, pkgs.Packages...)...)...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		into := "image"
		if buildDeb.MatchString(filepath.Base(deb)) {
			into = "build"
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

var buildDeb = regexp.MustCompile(`^linux-(headers|kbuild|source)-`)

// mergeUsr makes lib lead to usr/lib, where newer packages have their modules.
func mergeUsr(image string) error {
	if _, err := os.Stat(filepath.Join(image, "lib")); err == nil {
		return nil
	}
	return os.Symlink("usr/lib", filepath.Join(image, "lib"))
}
