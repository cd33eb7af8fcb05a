//go:build linux

package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

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
	return fetchNewer(ctx, log, cache, "iproute2", "usr/bin/rdma", newerRDMA(cache), "-V")
}
