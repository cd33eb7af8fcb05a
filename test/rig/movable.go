//go:build linux

package rig

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// movable is the module gvmovable, with which a test gives siw and rxe an operation that only
// drivers of hardware have: the move to another network namespace.
//
//go:embed movable/gvmovable.c
var movable []byte

const (
	movableName = "gvmovable"
	// movableFile is where it lies below a kernel's modules.
	movableFile = "kernel/drivers/infiniband/sw/" + movableName + "/" + movableName + ".ko"
)

// buildMovable compiles it against headers that buildSiw made ready, or against a kernel
// that was built there. args are more of make's.
func buildMovable(ctx context.Context, log io.Writer, tmp, headers string, args ...string) (string, error) {
	dir := filepath.Join(tmp, movableName)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{movableName + ".c": movable, "Kbuild": []byte("obj-m := " + movableName + ".o\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	argv := slices.Concat([]string{"make", "--no-print-directory", "-C", headers, "M=" + dir}, args, []string{"modules"})
	if err := command(ctx, log, tmp, argv...); err != nil {
		return "", fmt.Errorf("build %s.ko: %w", movableName, err)
	}
	ko := filepath.Join(dir, movableName+".ko")
	return ko, command(ctx, log, tmp, "strip", "--strip-debug", ko)
}
