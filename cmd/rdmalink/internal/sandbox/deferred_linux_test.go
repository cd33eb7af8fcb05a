package sandbox

import (
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// TestSignals checks that signals reach threads whose calls wait for their answers, as on Linux. Without
// that the programs would wait for ever, so each has a limit.
func TestSignals(t *testing.T) {
	program := compiled(t, "../../../../test/sandbox/signals.c")
	for name, options := range ways {
		for _, way := range []string{"handler", "restart", "default", "stop"} {
			if out, err := inside(t, options, "timeout", "-s", "KILL", "60", program, way); err != cli.ExitCode(5) {
				t.Errorf("%s, %s: %v\n%s", name, way, err, out)
			}
		}
	}
	subnet := []string{"--fabric", "fat-tree:4x2", "--no-sm"}
	for what, options := range map[string][]string{"netlink": nil, "umad": subnet, "issm": subnet} {
		if out, err := inside(t, options, "timeout", "-s", "KILL", "60", program, "handler", what); err != cli.ExitCode(5) {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}
