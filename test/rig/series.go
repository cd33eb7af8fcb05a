//go:build linux

package rig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Series are the kernel series the tests run on, oldest last. A series is
// pinned, its patch level is not: the newest that apt offers is taken.
var Series = []string{"6.12", "6.1"}

// CheckSeries returns the series that name stands for: one, or "all".
func CheckSeries(name string) ([]string, error) {
	if name == "all" {
		return Series, nil
	}
	if slices.Contains(Series, name) {
		return []string{name}, nil
	}
	return nil, fmt.Errorf("kernel series %q: expected one of %s, all", name, strings.Join(Series, ", "))
}

// packageSet is what one kernel needs from apt, as NAME=VERSION.
type packageSet struct {
	Release string // what uname -r says, "6.12.117+deb12-amd64"
	Version string // Debian's version of the kernel, "6.12.117-1~deb12u1"
	Image   string
	Headers []string // headers, common headers, kbuild
	Source  string
}

func (p packageSet) all() []string {
	return append([]string{p.Image, p.Source}, p.Headers...)
}

// imageNames picks the stock amd64 kernels of a series out of package names;
// real-time, cloud, unsigned and debug packages have another shape of name.
func imageNames(names []string, series string) []string {
	re := regexp.MustCompile(`^linux-image-` + regexp.QuoteMeta(series) + `\.[0-9]+(\+[a-z0-9]+)?(-[0-9]+)?-amd64$`)
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !re.MatchString(n) })
}

// partners are the packages that belong to an image. kbuild carries the whole
// release in its name since 6.12, only the series before.
func partners(image, series string) (names []string, release string) {
	release = strings.TrimPrefix(image, "linux-image-")
	base := strings.TrimSuffix(release, "-amd64")
	return []string{
		image, "linux-headers-" + release, "linux-headers-" + base + "-common",
		"linux-kbuild-" + base, "linux-kbuild-" + series, "linux-source-" + series,
	}, release
}

// choose picks the newest kernel of the series for which image, headers and
// source are on offer in the same version: only then does the module fit.
func choose(offers []offer, images []string, series string) (packageSet, error) {
	has := make(map[offer]bool, len(offers))
	for _, o := range offers {
		has[o] = true
	}
	var best packageSet
	for _, o := range offers {
		if !slices.Contains(images, o.name) {
			continue
		}
		p, ok := complete(has, o, series)
		if ok && (best.Release == "" || newer(p.Version, best.Version)) {
			best = p
		}
	}
	if best.Release == "" {
		return packageSet{}, fmt.Errorf("apt offers no complete set of linux-image, linux-headers, linux-kbuild and linux-source for series %s: "+
			"check that /etc/apt names bookworm and bookworm-security, then run apt-get update", series)
	}
	return best, nil
}

func complete(has map[offer]bool, image offer, series string) (packageSet, bool) {
	names, release := partners(image.name, series)
	at := func(n string) string { return n + "=" + image.version }
	p := packageSet{Release: release, Version: image.version, Image: at(image.name), Source: at(names[5])}
	kbuild := names[3]
	if !has[offer{kbuild, image.version}] {
		kbuild = names[4]
	}
	for _, n := range []string{names[1], names[2], kbuild} {
		if !has[offer{n, image.version}] {
			return p, false
		}
		p.Headers = append(p.Headers, at(n))
	}
	return p, has[offer{names[5], image.version}]
}

var digits = regexp.MustCompile(`[0-9]+`)

// newer compares two Debian versions of one source package by their numbers,
// which is all that differs between kernels of a series.
func newer(a, b string) bool {
	as, bs := digits.FindAllString(a, -1), digits.FindAllString(b, -1)
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x > y
		}
	}
	return len(as) > len(bs)
}
