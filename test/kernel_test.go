//go:build vm

package test

import (
	"os"
	"strings"
	"testing"
)

// onKernel reports whether the kernel is of a series.
func onKernel(series string) bool { return strings.HasPrefix(os.Getenv("GOVERBS_VM"), series+".") }

// sinceLinux7 reports whether the kernel is newer than 6.1 and 6.12.
func sinceLinux7() bool { return !strings.HasPrefix(os.Getenv("GOVERBS_VM"), "6.") }

// onUML reports whether the kernel is User Mode Linux.
func onUML() bool { return strings.Contains(os.Getenv("GOVERBS_VM"), "-uml-") }

// only612 is for tests of what programs print and send to each other, and for those that make
// very many objects. No kernel's source changes their result; other tests try the verbs in them
// on every kernel.
func only612(t *testing.T) {
	t.Helper()
	if !onKernel("6.12") {
		t.Skip("what programs print and send is tested on 6.12")
	}
}

// fewElsewhere returns all cases on 6.12, and the first few on other kernels.
func fewElsewhere[T any](cases []T, few int) []T {
	if onKernel("6.12") {
		return cases
	}
	return cases[:few]
}
