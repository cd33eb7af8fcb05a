//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// before is the commit whose devices in software the suite devices compares ours with.
const before = "aa8789f7"

// buildBefore builds bin/bench/devices-before: this commit's program with the packages of the earlier commit.
func buildBefore(ctx context.Context) (err error) {
	tree, err := os.MkdirTemp("", "goverbs-before-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tree)) }()
	archive := filepath.Join(tree, "tree.tar")
	if err := command(ctx, ".", nil, "git", "archive", "-o", archive, before); err != nil {
		return err
	}
	if err := command(ctx, tree, nil, "tar", "-xf", archive); err != nil {
		return err
	}
	program := filepath.Join(tree, "test/bench/devices")
	if err := os.CopyFS(program, os.DirFS("test/bench/devices")); err != nil {
		return err
	}
	to, err := filepath.Abs("bin/bench/devices-before")
	if err != nil {
		return err
	}
	return command(ctx, tree, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-buildvcs=false", "-o", to, "./test/bench/devices")
}
