//go:build vm

package kit

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// OK ends the test unless err is nil.
func OK(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Sh runs a shell command that has to succeed and returns its output.
func Sh(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// CloseLater closes c when the test ends, after everything that was registered later.
func CloseLater(t *testing.T, c interface{ Close() error }) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // the test may have closed it
			t.Error(err)
		}
	})
}

// Must returns a value, or ends the test if there is an error: Must(f())(t).
func Must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Same fails the test if a text differs from the content of a file.
func Same(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != got {
		t.Errorf("%s: %q, netlink says %q", file, want, got)
	}
}

// Number matches an object with its number, which the kernel chooses and no test can predict.
var Number = regexp.MustCompile(`\b(completion channel|AH|MR|MW|SRQ|CQ|PD) \d+`)

// Pattern fills b with bytes that depend on their place and on a seed.
func Pattern(b []byte, seed byte) []byte {
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)
	}
	return b
}

const Mark = 9
