package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForbidden checks the error, with cause and remedy, if seccomp is not
// available.
func TestForbidden(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.EPERM: "--security-opt seccomp=unconfined", unix.EACCES: "--security-opt seccomp=unconfined",
		unix.ENOSYS: "older than 5.9", unix.EINVAL: "older than 5.9", unix.EBUSY: "can't be nested",
	} {
		if err := explain(errno); !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestNested checks that a sandbox in a sandbox fails with an error, which is reported once.
func TestNested(t *testing.T) {
	const inner = "GOVERBS_INNER_SANDBOX"
	if os.Getenv(inner) != "" {
		out, err := inside(t, nil, "true")
		fmt.Printf("inner: %v, %q\n", err, out)
		return
	}
	t.Setenv(inner, "1")
	if out, err := inside(t, nil, os.Args[0], "-test.run=^TestNested$"); err != nil || !strings.Contains(out, "inner: seccomp: device or resource busy: a supervisor listens already; sandboxes can't be nested, \"\"") {
		t.Errorf("%v\n%s", err, out)
	}
}
