//go:build linux

package rig

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// movable is the module gvmovable, by which a test lets siw and rxe do what only
// drivers of hardware do: move to another network namespace.
//
//go:embed movable/gvmovable.c
var movable []byte

const movableName = "gvmovable"

// buildMovable compiles it against headers that buildSiw made ready.
func buildMovable(ctx context.Context, log io.Writer, tmp, headers string) (string, error) {
	dir := filepath.Join(tmp, movableName)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{movableName + ".c": movable, "Kbuild": []byte("obj-m := " + movableName + ".o\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return "", err
		}
	}
	if err := command(ctx, log, tmp, "make", "--no-print-directory", "-C", headers, "M="+dir, "modules"); err != nil {
		return "", fmt.Errorf("build %s.ko: %w", movableName, err)
	}
	ko := filepath.Join(dir, movableName+".ko")
	return ko, command(ctx, log, tmp, "strip", "--strip-debug", ko)
}
