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

// newerSuite has an iproute2 that is newer than Debian 12's and runs on it.
const newerSuite = "bookworm-backports"

// NewerRDMA is the rdma of a newer iproute2 than the one that is installed, for
// tests that compare with both. [Fetch] keeps it in the cache.
func NewerRDMA() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	program := newerRDMA(cache)
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("no newer rdma: run `go run ./test/cmd/vm fetch`: %w", err)
	}
	return program, nil
}

func newerRDMA(cache string) string { return filepath.Join(cache, newerSuite, "rdma") }

// fetchRDMA takes the program out of its package. One that is there stays.
func fetchRDMA(ctx context.Context, log io.Writer, cache string) error {
	program := newerRDMA(cache)
	if _, err := os.Stat(program); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	newest := func(offers []offer) (string, error) {
		if len(offers) == 0 {
			return "", fmt.Errorf("%s has no iproute2", newerSuite)
		}
		return offers[0].version, nil
	}
	return fromSuite(ctx, log, cache, newerSuite, []string{"iproute2"}, newest, func(image string) error {
		unpacked := filepath.Join(image, "usr/bin/rdma")
		if err := command(ctx, log, "", unpacked, "-V"); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
			return err
		}
		return os.Rename(unpacked, program)
	})
}
