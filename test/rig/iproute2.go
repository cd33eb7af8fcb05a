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
	tmp, err := os.MkdirTemp(cache, "rdma-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	a, err := openSuite(ctx, log, tmp, newerSuite)
	if err != nil {
		return err
	}
	text, err := output(ctx, a.cache("madison", "iproute2")...)
	if err != nil {
		return err
	}
	offers := parseMadison(text)
	if len(offers) == 0 {
		return fmt.Errorf("%s has no iproute2", newerSuite)
	}
	if err := download(ctx, log, a, tmp, packageSet{Packages: []string{"iproute2=" + offers[0].version}}); err != nil {
		return err
	}
	unpacked := filepath.Join(tmp, "image/usr/bin/rdma")
	if err := command(ctx, log, "", unpacked, "-V"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	return os.Rename(unpacked, program)
}
