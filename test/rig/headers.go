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

// growing are the headers that internal/abi/gen wants of the newest kernel.
var growing = []string{"rdma_netlink.h", "rdma_user_cm.h", "ib_user_sa.h", "efa-abi.h"}

// verbs are the headers whose ids a table of internal/verbtable has to have. They stand in a
// directory of their own, where no C compiler finds them.
var verbs = []string{"ib_user_ioctl_cmds.h", "ib_user_verbs.h"}

// FetchHeaders keeps some headers of the series that Debian 12 does not have in
// headers-SERIES/rdma and headers-SERIES/verbs of the cache. Files that are there stay.
func FetchHeaders(ctx context.Context, log io.Writer) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	unlock, err := lock(cache)
	if err != nil {
		return err
	}
	defer unlock()
	for series, suite := range foreign {
		dir := filepath.Join(cache, "headers-"+series)
		if hasAll(dir) {
			continue
		}
		if err := fetchHeaders(ctx, log, cache, series, suite, dir); err != nil {
			return fmt.Errorf("fetch the headers of kernel %s: %w", series, err)
		}
	}
	return nil
}

// uapiHeaders are the headers, by their directory.
var uapiHeaders = map[string][]string{"rdma": growing, "verbs": verbs}

// hasAll reports whether a directory has all headers. Those of an earlier version may be fewer.
func hasAll(dir string) bool {
	for sub, names := range uapiHeaders {
		for _, header := range names {
			if _, err := os.Stat(filepath.Join(dir, sub, header)); err != nil {
				return false
			}
		}
	}
	return true
}

// libcDev is Debian's package of a kernel's uapi headers.
const libcDev = "linux-libc-dev"

func fetchHeaders(ctx context.Context, log io.Writer, cache, series, suite, dir string) error {
	newest := func(offers []offer) (string, error) { return headersVersion(offers, series) }
	return fromSuite(ctx, log, cache, suite, []string{libcDev, "linux-image-amd64"}, newest, func(image string) error {
		for sub, names := range uapiHeaders {
			for _, header := range names {
				if err := copyFile(filepath.Join(image, "usr/include/rdma", header), filepath.Join(dir, sub, header)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// fromSuite unpacks a package of a suite, of the version that pick chooses among
// the offers of some packages, of which it is the first, and passes
// its files to take.
func fromSuite(ctx context.Context, log io.Writer, cache, suite string, packages []string,
	pick func([]offer) (version string, err error), take func(image string) error) error {
	tmp, err := os.MkdirTemp(cache, packages[0]+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	a, err := openSuite(ctx, log, tmp, suite)
	if err != nil {
		return err
	}
	text, err := output(ctx, a.cache(append([]string{"madison"}, packages...)...)...)
	if err != nil {
		return err
	}
	version, err := pick(parseMadison(text))
	if err != nil {
		return err
	}
	if err := download(ctx, log, a, tmp, packageSet{Packages: []string{packages[0] + "=" + version}}); err != nil {
		return err
	}
	return take(filepath.Join(tmp, "image"))
}

// headersVersion is the newest version of the series on offer.
func headersVersion(offers []offer, series string) (string, error) {
	for _, o := range offers {
		if o.name == libcDev && strings.HasPrefix(o.version, series+".") {
			return o.version, nil
		}
	}
	return "", fmt.Errorf("no %s of %s: %s", libcDev, series, whereTo(offers, series))
}
