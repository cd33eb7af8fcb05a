package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// TestNested checks that a sandbox in a sandbox fails with an error.
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

// TestBecomeFails checks that the process between the supervisor and the command leaves the report of an
// error to the supervisor.
func TestBecomeFails(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	c := exec.Command("sh", "-c", `ulimit -n 500; exec "$0" sandbox -- true true`, os.Args[0])
	c.Env = append(os.Environ(), stage+"=3")
	c.ExtraFiles = []*os.File{theirs}
	if out, err := c.CombinedOutput(); err == nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	message := make([]byte, 1024)
	n, _, err := unix.Recvfrom(pair[0], message, unix.MSG_DONTWAIT)
	if err != nil || !strings.Contains(string(message[:n]), "the limit of open files is 500") {
		t.Errorf("%q, %v", message[:n], err)
	}
}
