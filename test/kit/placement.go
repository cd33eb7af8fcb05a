//go:build vm

package kit

import (
	"os"
	"strings"
	"testing"
)

// OnKernel reports whether the kernel is of a series.
func OnKernel(series string) bool { return strings.HasPrefix(os.Getenv("GOVERBS_VM"), series+".") }

// SinceLinux7 reports whether the kernel is newer than 6.1 and 6.12.
func SinceLinux7() bool { return !strings.HasPrefix(os.Getenv("GOVERBS_VM"), "6.") }

// OnUML reports whether the kernel is User Mode Linux.
func OnUML() bool { return strings.Contains(os.Getenv("GOVERBS_VM"), "-uml-") }

// Only612 is for tests of the output and messages of programs, and for those that make
// very many objects. No kernel's source changes their result; other tests try the verbs in them
// on every kernel.
func Only612(t *testing.T) {
	t.Helper()
	if !OnKernel("6.12") {
		t.Skip("what programs print and send is tested on 6.12")
	}
}

// FewElsewhere returns all cases on 6.12, and the first few on other kernels.
func FewElsewhere[T any](cases []T, few int) []T {
	if OnKernel("6.12") {
		return cases
	}
	return cases[:few]
}

// HasSiw is false if the test machine says that this kernel has no siw.
// Otherwise the tests fail if there is none.
var HasSiw = os.Getenv("GOVERBS_LACKS") != "siw"

// NeedSiw skips a test on a kernel without siw. Tests of other drivers run
// everywhere.
func NeedSiw(t *testing.T) {
	t.Helper()
	if !HasSiw {
		t.Skip("this kernel has no siw")
	}
}

// LinkTypes returns the types of RDMA links that the kernel supports.
func LinkTypes() []string {
	if !HasSiw {
		return []string{"rxe"}
	}
	return []string{"siw", "rxe"}
}
