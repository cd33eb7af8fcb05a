//go:build vm

package test

import (
	"fmt"
	"os"
	"runtime/pprof"
	"testing"

	"github.com/goverbs/goverbs/mmap"
)

// TestMain fails a run that leaves a mapping behind, and lets this binary be the
// process that a test kills or puts elsewhere (see child).
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	code := m.Run()
	if n := mmap.Live(); n > 0 {
		fmt.Fprintf(os.Stderr, "%d mappings left:\n", n)
		pprof.Lookup(mmap.LiveProfile).WriteTo(os.Stderr, 1)
		code = max(code, 1)
	}
	os.Exit(code)
}
