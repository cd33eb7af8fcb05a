//go:build linux

package rig

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImageNames(t *testing.T) {
	names := []string{
		"linux-image-6.1-amd64", "linux-image-6.1.0-56-amd64", "linux-image-6.1.0-9-amd64",
		"linux-image-6.1.0-56-rt-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-56-amd64-unsigned",
		"linux-image-6.1.0-56-amd64-dbg", "linux-image-6.12.117+deb12-amd64", "linux-image-6.12.117+deb12-rt-amd64",
		"linux-image-7.3.12+deb13-amd64", "linux-image-7.3.12+deb13-cloud-amd64", "linux-image-7.3.12+deb13-amd64-dbg",
	}
	for series, want := range map[string][]string{
		"6.1":  {"linux-image-6.1.0-56-amd64", "linux-image-6.1.0-9-amd64"},
		"6.12": {"linux-image-6.12.117+deb12-amd64"},
		"7.3":  {"linux-image-7.3.12+deb13-amd64"},
		"6.99": {},
	} {
		if diff := cmp.Diff(want, imageNames(names, series)); diff != "" {
			t.Errorf("series %s (-want +got):\n%s", series, diff)
		}
	}
}

const madison = `
linux-headers-6.1.0-56-amd64 |  6.1.192-2 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-headers-6.1.0-56-common |  6.1.192-2 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-headers-6.1.0-9-amd64 |  6.1.27-1 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux-headers-6.1.0-9-common |  6.1.27-1 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux-image-6.1.0-57-amd64 |  6.1.193-1 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-image-6.1.0-56-amd64 |  6.1.192-2 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-image-6.1.0-9-amd64 |  6.1.27-1 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux-kbuild-6.1 |  6.1.192-2 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-kbuild-6.1 |  6.1.27-1 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux-source-6.1 |  6.1.192-2 | http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
linux-source-6.1 |  6.1.27-1 | http://deb.debian.org/debian bookworm/main amd64 Packages
linux |  6.1.193-1 | http://deb.debian.org/debian bookworm/main Sources
`

func TestChoose(t *testing.T) {
	images := []string{"linux-image-6.1.0-9-amd64", "linux-image-6.1.0-57-amd64", "linux-image-6.1.0-56-amd64"}
	got, err := choose(parseMadison(madison), images, "6.1")
	if err != nil {
		t.Fatal(err)
	}
	// 6.1.0-57 is newer but has no headers and no source yet.
	want := packageSet{
		Release: "6.1.0-56-amd64", Version: "6.1.192-2",
		Packages: []string{
			"linux-image-6.1.0-56-amd64=6.1.192-2", "linux-source-6.1=6.1.192-2",
			"linux-headers-6.1.0-56-amd64=6.1.192-2", "linux-headers-6.1.0-56-common=6.1.192-2", "linux-kbuild-6.1=6.1.192-2",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("choose (-want +got):\n%s", diff)
	}
}

// TestChooseNewerKbuild has an archive that offers the kbuild of the next kernel already, and that of the last one not
// any more.
func TestChooseNewerKbuild(t *testing.T) {
	offers := parseMadison(strings.Replace(madison, "linux-kbuild-6.1 |  6.1.192-2", "linux-kbuild-6.1 |  6.1.193-1", 1))
	got, err := choose(offers, []string{"linux-image-6.1.0-9-amd64", "linux-image-6.1.0-56-amd64"}, "6.1")
	if want := "linux-kbuild-6.1=6.1.193-1"; err != nil || got.Release != "6.1.0-56-amd64" || !slices.Contains(got.Packages, want) {
		t.Errorf("packages %v, %v, want %s among them", got.Packages, err, want)
	}
}

func TestChooseOwnKbuild(t *testing.T) {
	const v, base = "6.12.117-1~deb12u1", "6.12.117+deb12"
	offers := []offer{
		{"linux-image-" + base + "-amd64", v}, {"linux-headers-" + base + "-amd64", v}, {"linux-headers-" + base + "-common", v},
		{"linux-kbuild-" + base, v}, {"linux-source-6.12", v},
	}
	got, err := choose(offers, []string{"linux-image-" + base + "-amd64"}, "6.12")
	if err != nil {
		t.Fatal(err)
	}
	if want := "linux-kbuild-" + base + "=" + v; !slices.Contains(got.Packages, want) {
		t.Errorf("packages %v, want %s among them", got.Packages, want)
	}
}

func TestChooseInParts(t *testing.T) {
	const v, release = "7.3.12-1~bpo13+1", "7.3.12+deb13-amd64"
	offers := []offer{
		{"linux-image-" + release, v}, {"linux-base-" + release, v}, {"linux-binary-" + release, v}, {"linux-modules-" + release, v},
		{"linux-image-7.3.13+deb13-amd64", "7.3.13-1~bpo13+1"},
	}
	got, err := choose(offers, []string{"linux-image-" + release, "linux-image-7.3.13+deb13-amd64"}, "7.3")
	want := packageSet{Release: release, Version: v, Packages: []string{
		"linux-image-" + release + "=" + v, "linux-base-" + release + "=" + v, "linux-binary-" + release + "=" + v, "linux-modules-" + release + "=" + v,
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; choose (-want +got):\n%s", err, diff)
	}
}

func TestChooseNothing(t *testing.T) {
	if got, err := choose(nil, nil, "6.12"); !errors.Is(err, errIncomplete) {
		t.Errorf("chose %+v from no offers, %v", got, err)
	}
}

func TestWhereTo(t *testing.T) {
	offers := []offer{{"linux-image-amd64", "7.4.4-1~bpo13+1"}}
	for series, want := range map[string]string{
		"6.12": "check that /etc/apt names bookworm",
		"7.3":  "trixie-backports has moved on to 7.4.4-1~bpo13+1: name a newer series",
	} {
		if got := whereTo(offers, series); !strings.HasPrefix(got, want) {
			t.Errorf("series %s: %q, want it to begin %q", series, got, want)
		}
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"6.1.192-2", "6.1.27-1", true},
		{"6.1.27-1", "6.1.192-2", false},
		{"6.1.192-2", "6.1.192-1", true},
		{"6.12.117-1~deb12u1", "6.12.115-2~deb12u1", true},
		{"7.3.12-1~bpo13+1", "7.3.9-1~bpo13+1", true},
		{"6.12.117-1~deb12u2", "6.12.117-1~deb12u1", true},
		{"6.1.1-1", "6.1.1-1", false},
	} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("newer(%s, %s) = %v", c.a, c.b, got)
		}
	}
}
