//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// A testRun is one run of a test binary in a guest.
type testRun struct {
	Package string
	Dir     string // of the package's source
	Args    []string
}

// The marks stand on lines of their own, around the output of each run.
const (
	beginMark = "\x16vm begin "
	endMark   = "\x16vm end " // the exit code follows
)

// batch runs the test binaries that a file lists, one after the other. It is the command of a
// guest that takes several.
func batch(file string, stdout io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var runs []testRun
	if err := json.Unmarshal(text, &runs); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	// At the time limit the process group gets SIGQUIT, for the test binary's stacks.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGQUIT)
	for _, r := range runs {
		fmt.Fprintf(stdout, "%s%s\n", beginMark, r.Package)
		cmd := exec.Command(r.Args[0], r.Args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = r.Dir, stdout, stdout
		err := cmd.Run()
		code := cmd.ProcessState.ExitCode()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			fmt.Fprintln(stdout, err)
			code = 1
		} else if err != nil && code < 0 {
			fmt.Fprintln(stdout, err) // a signal
		}
		fmt.Fprintf(stdout, "\n%s%d\n", endMark, code)
	}
	return nil
}
