//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// newerSuite has programs that are newer than Debian 12's and run on it.
const newerSuite = "bookworm-backports"

// fetchNewer takes a program out of a package of newerSuite and sees that it
// starts, with an argument that has it print its version. One that is there stays.
func fetchNewer(ctx context.Context, log io.Writer, cache, pkg, from, to, version string) error {
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	newest := func(offers []offer) (string, error) {
		if len(offers) == 0 {
			return "", fmt.Errorf("%s has no %s", newerSuite, pkg)
		}
		return offers[0].version, nil
	}
	return fromSuite(ctx, log, cache, newerSuite, []string{pkg}, newest, func(image string) error {
		unpacked := filepath.Join(image, from)
		if err := command(ctx, log, "", unpacked, version); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.Rename(unpacked, to)
	})
}
