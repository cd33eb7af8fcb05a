//go:build linux

package rig

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// packageSet is what one kernel is made from.
type packageSet struct {
	Release  string   // what uname -r says, "6.12.117+deb12-amd64"
	Version  string   // Debian's version of the kernel, "6.12.117-1~deb12u1"
	Packages []string // for apt, as NAME=VERSION
}

// imageNames picks the stock amd64 kernels of a series out of package names;
// real-time, cloud, unsigned and debug packages have another shape of name.
func imageNames(names []string, series string) []string {
	re := regexp.MustCompile(`^linux-image-` + regexp.QuoteMeta(series) + `\.[0-9]+(\+[a-z0-9]+)?(-[0-9]+)?-amd64$`)
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !re.MatchString(n) })
}

// partners are the packages that a kernel is made from, one of each row. kbuild
// carries the whole release in its name since 6.12, only the series before.
// A foreign kernel comes in three parts; its image is an empty package.
func partners(image, series string) [][]string {
	release := strings.TrimPrefix(image, "linux-image-")
	if foreign[series] != "" {
		return [][]string{{image}, {"linux-base-" + release}, {"linux-binary-" + release}, {"linux-modules-" + release}}
	}
	base := strings.TrimSuffix(release, "-amd64")
	return [][]string{
		{image}, {"linux-source-" + series}, {"linux-headers-" + release}, {"linux-headers-" + base + "-common"},
		{"linux-kbuild-" + base, "linux-kbuild-" + series},
	}
}

// errIncomplete is what choose returns if nothing will do.
var errIncomplete = errors.New("no complete set of kernel packages on offer")

// choose picks the newest kernel of the series that has all its partners on
// offer in the same version: only then does a module fit. A newer kbuild does too.
func choose(offers []offer, images []string, series string) (packageSet, error) {
	var best packageSet
	for _, o := range offers {
		if !slices.Contains(images, o.name) {
			continue
		}
		p, ok := complete(offers, o, series)
		if ok && (best.Release == "" || newer(p.Version, best.Version)) {
			best = p
		}
	}
	if best.Release == "" {
		return packageSet{}, errIncomplete
	}
	return best, nil
}

func complete(offers []offer, image offer, series string) (packageSet, bool) {
	p := packageSet{Release: strings.TrimPrefix(image.name, "linux-image-"), Version: image.version}
	for _, row := range partners(image.name, series) {
		i := slices.IndexFunc(offers, func(o offer) bool { return slices.Contains(row, o.name) && o.version == image.version })
		// Headers depend on their version of the kbuild of a series or a newer one. An archive may offer only the
		// newer.
		if kbuild := "linux-kbuild-" + series; i < 0 && slices.Contains(row, kbuild) {
			i = slices.IndexFunc(offers, func(o offer) bool { return o.name == kbuild && newer(o.version, image.version) })
		}
		if i < 0 {
			return p, false
		}
		p.Packages = append(p.Packages, offers[i].name+"="+offers[i].version)
	}
	return p, true
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
