package sandbox

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForbidden: where seccomp is not to be had, the error says why and what to do.
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

// TestNested: a sandbox in a sandbox says that it can't be.
func TestNested(t *testing.T) {
	const inner = "GOVERBS_INNER_SANDBOX"
	if os.Getenv(inner) != "" {
		_, err := inside(t, nil, "true")
		fmt.Println("inner:", err)
		return
	}
	t.Setenv(inner, "1")
	if out, err := inside(t, nil, os.Args[0], "-test.run=^TestNested$"); err != nil || !strings.Contains(out, "inner: seccomp: device or resource busy: a supervisor listens already; sandboxes can't be nested") {
		t.Errorf("%v\n%s", err, out)
	}
}
