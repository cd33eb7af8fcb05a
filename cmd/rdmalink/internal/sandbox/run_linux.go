package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/record"
	"github.com/goverbs/goverbs/verbs"
)

// Run runs the command.
func Run(ctx context.Context, out cli.Output, args []string) error {
	if os.Getenv(stage) != "" {
		return become(args[1:])
	}
	if isDiff(args) {
		return diff(out, args[1:])
	}
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	f, err := newFiles()
	if err != nil {
		return err
	}
	defer f.remove()
	if o.trap && !canTrap {
		return fmt.Errorf("--trap: %w on this architecture: it knows the instructions of amd64", verbs.ErrNotSupported)
	}
	s := &supervisor{files: f, trap: o.trap, old: strings.HasSuffix(o.kind, "-old"), stops: make(map[int]bool)}
	if o.record != "" {
		file, err := os.Create(o.record)
		if err != nil {
			return err
		}
		defer file.Close()
		s.recorder = record.New(file)
	}
	if err := s.build(o); err != nil {
		return err
	}
	err = s.run(ctx, out, o.command)
	if failed := s.failure(); failed != nil {
		return failed
	}
	s.look()
	misuse := s.violations()
	switch {
	case err != nil:
		// The exit code is the command's. A misuse may be why it failed, or hung until it was killed.
		if misuse != nil {
			out.Note("%v", misuse)
		}
		return err
	case misuse != nil:
		return misuse
	case s.recorder != nil:
		return s.recorder.Err()
	}
	return nil
}

// build creates the hosts.
func (s *supervisor) build(o options) error {
	if o.fabric != "" {
		subnet, err := newSubnet(o.fabric, !o.noSM)
		if err != nil {
			return err
		}
		s.fabric = newFabricHosts(subnet, s.files.dir)
		return nil
	}
	k, addrs := newFabric(o)
	for i, addr := range addrs {
		m, err := newMachine(k, i, addr, filepath.Join(s.files.dir, fmt.Sprint("host", i+1)))
		if err != nil {
			return err
		}
		s.hosts = append(s.hosts, m)
	}
	return nil
}

// run runs a command, and ends the processes that it left running.
func (s *supervisor) run(ctx context.Context, out cli.Output, words []string) error {
	// Processes whose parent ends become ours, so that none outlives the sandbox.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	c := exec.CommandContext(ctx, words[0])
	c.Args = words
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, out.Stdout, out.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	l, err := start(c)
	if err != nil {
		return err
	}
	s.listener = l.listener
	var t *tracer
	if s.trap {
		if t, err = s.trace(l); err != nil {
			l.giveUp(c)
			return err
		}
	}
	go s.serve()
	l.release()
	if t != nil {
		err = t.wait(c)
	} else {
		err = wait(c)
	}
	endChildren()
	if t != nil {
		<-t.done // or it would take the ends of a later sandbox's processes
	}
	return err
}

// wait waits for the command, whose end becomes ours.
func wait(c *exec.Cmd) error {
	err := c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitCode(exit.Sys().(syscall.WaitStatus))
	}
	return err
}

// exitCode returns the command's exit code as an error, or nil for success.
func exitCode(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		return cli.ExitCode(128 + int(status.Signal()))
	case status.ExitStatus() != 0:
		return cli.ExitCode(status.ExitStatus())
	}
	return nil
}
