package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/record"
	"github.com/goverbs/goverbs/internal/roce"
	"github.com/goverbs/goverbs/verbs"
)

// Run runs the command.
func Run(ctx context.Context, out cli.Output, args []string) error {
	if os.Getenv(stage) != "" {
		return between(args[1:])
	}
	switch {
	case isDiff(args):
		return diff(out, args[1:])
	case len(args) > 0 && args[0] == "fault":
		return sendFault(ctx, out, args[1:])
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
	s := &supervisor{files: f, trap: o.trap, netns: o.netns, old: strings.HasSuffix(o.kind, "-old"), stops: make(map[int]bool), locked: make(map[int]*locked)}
	if o.record != "" {
		file, err := cli.CreateBeside(o.record, o.command)
		if err != nil {
			return err
		}
		defer file.Close()
		s.recorder = record.New(file)
	}
	if err := s.build(o, out); err != nil {
		return err
	}
	if o.control != "" {
		control, err := s.faults.listen(o.control)
		if err != nil {
			return err
		}
		defer control.Close()
	}
	if s.wire != nil {
		defer s.wire.close()
	}
	err = s.run(ctx, out, o.command)
	s.faults.end(out)
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
func (s *supervisor) build(o options, out cli.Output) error {
	if o.fabric != "" {
		subnet, err := newSubnet(o.fabric, !o.noSM)
		if err != nil {
			return err
		}
		s.fabric = newFabricHosts(subnet, s.files.dir, o.seed)
		if s.fabric.network == nil && (o.faults != nil || o.control != "") {
			return cli.UsageError{Text: "--fabric " + o.fabric + " has no adapters, so there are no faults"}
		}
		s.faults = &faults{network: s.fabric.network, subnet: s.fabric, undo: make(map[string]func())}
		return s.faults.plan(o.faults)
	}
	var p *profile
	if o.profile != "" {
		var err error
		if p, err = openProfile(o.profile); err != nil {
			return err
		}
		s.profile = true
		if p.skipped != nil {
			out.Note("no model of these NICs of the profile: %s", strings.Join(p.skipped, ", "))
		}
	}
	k, fabric := newFabric(o, p)
	if o.wire != nil {
		w, err := openWire(o.wire, o.wireKey, out)
		if err != nil {
			return err
		}
		s.wire = w
		w.connect(fabric)
		if o.wireKey == nil {
			out.Note("--wire: UDP port %d of %v is open to everybody who can send to it (--wire-key FILE)", roce.Port, o.wire)
		}
	}
	n := 0
	for i, host := range fabric.Hosts() {
		m, err := newMachine(k, n, host, filepath.Join(s.files.dir, fmt.Sprint("host", i+1)), p)
		if err != nil {
			return err
		}
		n += len(m.devices)
		s.hosts = append(s.hosts, m)
	}
	s.faults = &faults{network: fabric, hosts: s.hosts, undo: make(map[string]func())}
	return s.faults.plan(o.faults)
}

// run runs a command, and ends the processes that it left running.
func (s *supervisor) run(ctx context.Context, out cli.Output, words []string) error {
	// If the guard is killed, its children become ours.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	c := exec.Command(words[0])
	c.Args = words
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, out.Stdout, out.Stderr
	var hosts []*machine
	if s.netns {
		hosts = s.hosts
	}
	l, err := start(c, hosts)
	if err != nil {
		return err
	}
	s.listener = l.listener
	var t *tracer
	if s.trap {
		if t, err = s.trace(l); err != nil {
			l.giveUp()
			return err
		}
	}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	defer context.AfterFunc(ctx, func() { _ = l.command.Signal(unix.SIGTERM) })()
	s.faults.start()
	l.release()
	status, err := l.wait()
	endChildren()
	serving.Wait() // the last calls use files that are closed next
	if t != nil {
		<-t.done // or it would take the ends of a later sandbox's processes
	}
	if err == nil {
		err = exitCode(status)
	}
	return err
}

// exitCode returns the command's exit code as an error, or nil for success.
func exitCode(status unix.WaitStatus) error {
	switch {
	case status.Signaled():
		return cli.ExitCode(128 + int(status.Signal()))
	case status.ExitStatus() != 0:
		return cli.ExitCode(status.ExitStatus())
	}
	return nil
}
