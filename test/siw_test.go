//go:build vm

package test

import (
	"os"
	"testing"
)

// hasSiw is false on a kernel that the test machine has no siw for, and says so.
// Where siw should be, its absence fails the tests.
var hasSiw = os.Getenv("GOVERBS_LACKS") != "siw"

// needSiw leaves a test out where there is no siw. Tests of other drivers run
// everywhere.
func needSiw(t *testing.T) {
	t.Helper()
	if !hasSiw {
		t.Skip("this kernel has no siw")
	}
}

// linkTypes are the types of RDMA links that the kernel can make.
func linkTypes() []string {
	if !hasSiw {
		return []string{"rxe"}
	}
	return []string{"siw", "rxe"}
}
