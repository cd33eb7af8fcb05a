//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/rig/guest"
)

// The test binary is pid 1 of the guests it boots, as the command is.
func TestMain(m *testing.M) {
	guest.Enter()
	os.Exit(m.Run())
}

func TestUsageErrors(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "usage:"},
		{"frob", 2, "usage:"},
		{"run -frob", exitRig, "-frob"},
		{"run -h", 2, "-timeout"},
		{"run", exitRig, "no command"},
		{"run -kernel 5.10 -- true", exitRig, "expected one of 6.12, 6.1, 7.3, uml-6.12, all"},
		{"run -- true", exitRig, "go run ./test/cmd/vm fetch -kernel 6.12"},
		{"run -kernel uml-6.12 -- true", exitRig, "go run ./test/cmd/vm fetch -kernel uml-6.12"},
		{"fetch -kernel 5.10", exitRig, "expected one of"},
	} {
		var out, errs bytes.Buffer
		code := run(context.Background(), strings.Fields(c.args), &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.want) || out.Len() > 0 {
			t.Errorf("vm %s: code %d, want %d; stdout %q, stderr %q, want %q in it", c.args, code, c.code, &out, &errs, c.want)
		}
	}
}
