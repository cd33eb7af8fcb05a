//go:build linux

package rig

import (
	"context"
	"io"
	"slices"
)

// Install gets the Debian packages that are missing, with apt, as root or with
// sudo.
func Install(ctx context.Context, log io.Writer, packages ...string) error {
	missing := slices.DeleteFunc(slices.Clone(packages), installed)
	if len(missing) == 0 {
		return nil
	}
	return refresh(ctx, log, missing)
}
