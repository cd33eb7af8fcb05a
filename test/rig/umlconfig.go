//go:build linux

package rig

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// widenRegisters makes room for a CPU's registers, which ptrace takes all at
// once or not at all: 6.12 knows of 2696 bytes, AVX-512; with AMX they are 11008.
func widenRegisters(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	old, wide := "DEFINE_LONGS(HOST_FP_SIZE, 2696)", "DEFINE_LONGS(HOST_FP_SIZE, 12288)"
	if strings.Count(string(text), old) != 1 {
		return fmt.Errorf("%s has not one %s: see whether this kernel still needs more", file, old)
	}
	return os.WriteFile(file, []byte(strings.Replace(string(text), old, wide, 1)), 0o644)
}

// offerShortSlices lets the scheduler end time slices by a timer. That needs no more than
// timers of high resolution, but is offered in a file that UML does not read, beside the
// choice of a tick that it has not.
func offerShortSlices(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString("\nconfig SCHED_HRTICK\n\tdef_bool HIGH_RES_TIMERS\n")
	return err
}

// configure makes the .config, and checks that it holds the requested options: an
// option whose conditions are not met is dropped without a word.
func configure(ctx context.Context, tmp, source, out string) error {
	fragment := filepath.Join(tmp, "uml.config")
	if err := os.WriteFile(fragment, []byte(umlConfig), 0o644); err != nil {
		return err
	}
	if err := makeUML(ctx, io.Discard, source, "O="+out, "KCONFIG_ALLCONFIG="+fragment, "allnoconfig"); err != nil {
		return err
	}
	got, err := os.ReadFile(filepath.Join(out, ".config"))
	if err != nil {
		return err
	}
	if dropped := missingOptions(umlConfig, string(got)); len(dropped) > 0 {
		return fmt.Errorf("the kernel's configuration refused %s", strings.Join(dropped, " "))
	}
	return nil
}

// missingOptions lists the requested options that are missing.
func missingOptions(want, got string) []string {
	have := strings.Split(got, "\n")
	var missing []string
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "CONFIG_") && !slices.Contains(have, line) {
			missing = append(missing, line)
		}
	}
	return missing
}
