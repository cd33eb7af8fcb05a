//go:build !linux

package sandbox

import (
	"context"
	"fmt"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

// Run runs the command.
func Run(_ context.Context, out cli.Output, args []string) error {
	if isDiff(args) {
		return diff(out, args[1:])
	}
	if _, err := parseOptions(args); err != nil {
		return err
	}
	return fmt.Errorf("sandbox: %w: it needs Linux's seccomp", verbs.ErrNotSupported)
}
