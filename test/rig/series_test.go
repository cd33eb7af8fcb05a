//go:build linux

package rig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImageNames(t *testing.T) {
	names := []string{
		"linux-image-6.1-amd64", "linux-image-6.1.0-56-amd64", "linux-image-6.1.0-9-amd64",
		"linux-image-6.1.0-56-rt-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-56-amd64-unsigned",
		"linux-image-6.1.0-56-amd64-dbg", "linux-image-6.12.117+deb12-amd64", "linux-image-6.12.117+deb12-rt-amd64",
	}
	for series, want := range map[string][]string{
		"6.1":  {"linux-image-6.1.0-56-amd64", "linux-image-6.1.0-9-amd64"},
		"6.12": {"linux-image-6.12.117+deb12-amd64"},
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
		Image:   "linux-image-6.1.0-56-amd64=6.1.192-2",
		Headers: []string{"linux-headers-6.1.0-56-amd64=6.1.192-2", "linux-headers-6.1.0-56-common=6.1.192-2", "linux-kbuild-6.1=6.1.192-2"},
		Source:  "linux-source-6.1=6.1.192-2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("choose (-want +got):\n%s", diff)
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
	if want := "linux-kbuild-" + base + "=" + v; got.Headers[2] != want {
		t.Errorf("kbuild %s, want %s", got.Headers[2], want)
	}
}

func TestChooseNothing(t *testing.T) {
	if got, err := choose(nil, nil, "6.12"); err == nil {
		t.Errorf("chose %+v from no offers", got)
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
		{"6.12.117-1~deb12u2", "6.12.117-1~deb12u1", true},
		{"6.1.1-1", "6.1.1-1", false},
	} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("newer(%s, %s) = %v", c.a, c.b, got)
		}
	}
}

func TestCheckSeries(t *testing.T) {
	if got, err := CheckSeries("all"); err != nil || len(got) != len(Series) {
		t.Errorf("all: %v, %v", got, err)
	}
	if _, err := CheckSeries("5.10"); err == nil {
		t.Error("5.10 was accepted")
	}
}
