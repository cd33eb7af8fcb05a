//go:build vm

package test

import (
	"os"
	"strings"
	"testing"
)

// onKernel tells whether the kernel is of a series.
func onKernel(series string) bool { return strings.HasPrefix(os.Getenv("GOVERBS_VM"), series+".") }

// sinceLinux7: 6.1 and 6.12 are what there is before.
func sinceLinux7() bool { return !strings.HasPrefix(os.Getenv("GOVERBS_VM"), "6.") }

// onUML tells whether it is User Mode Linux, where programs run at the speed of the host.
func onUML() bool { return strings.Contains(os.Getenv("GOVERBS_VM"), "-uml-") }

// onlyUML is for tests of what programs say, to each other or to their user, and of those
// that make very many objects. The verbs in them other tests try on every kernel. The race
// detector has no room in User Mode Linux.
func onlyUML(t *testing.T) {
	t.Helper()
	if !onUML() && !raceDetector {
		t.Skip("programs, and very many objects, are tested on uml-6.12")
	}
}

// notTwice is for what a kernel's source decides, on whatever machine it runs: the 6.12 of
// these tests is uml-6.12. Rings, mappings and verbs are tested on that and in QEMU.
func notTwice(t *testing.T) {
	t.Helper()
	if onKernel("6.12") && !onUML() && !raceDetector {
		t.Skip("for 6.12 this is tested on uml-6.12")
	}
}

// mostOnUML leaves the first few cases for the kernels in QEMU.
func mostOnUML[T any](cases []T, few int) []T {
	if onUML() {
		return cases
	}
	return cases[:few]
}
