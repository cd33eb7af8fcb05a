//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// A companion is a program that runs concurrently with others. It communicates through lines of its
// standard input and output.
type companion struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	errs  bytes.Buffer
}

func (b *bench) start(argv []string) (*companion, error) {
	p := &companion{cmd: exec.CommandContext(b.ctx, argv[0], argv[1:]...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.lines = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// says reads a line of the program's output.
func (p *companion) says() (string, error) {
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.cmd.Process.Kill()
		return "", p.end()
	}
	return strings.TrimSpace(line), nil
}

// end waits until the program has ended.
func (p *companion) end() error {
	p.in.Close()
	_, err := io.Copy(io.Discard, p.lines)
	if err = errors.Join(err, p.cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(p.cmd.Args, " "), err, lastLine(p.errs.String()))
	}
	return nil
}

// serving runs a server during f.
func (b *bench) serving(argv []string, f func(*companion) error) error {
	server, err := b.start(argv)
	if err != nil {
		return err
	}
	if _, err := server.says(); err != nil {
		return err
	}
	err = f(server)
	if err != nil {
		server.cmd.Process.Kill()
	} else {
		err = server.cmd.Process.Signal(syscall.SIGTERM)
	}
	return errors.Join(err, server.end())
}

// objects returns the numbers of the kernel's objects on l.
func objects(l *link) (map[string]uint64, error) {
	var nl netlinkrdma.Client
	dev, err := nl.DeviceByName(l.name)
	if err != nil {
		return nil, err
	}
	counts, err := nl.Resources(dev.Index, nil)
	if err != nil {
		return nil, err
	}
	all := make(map[string]uint64)
	for _, c := range counts {
		all[c.Kind] = c.Count
	}
	return all, nil
}

// noneLeft waits until the kernel has freed the objects of programs that have ended. It fails if some
// remain.
func noneLeft(l *link, before map[string]uint64) error {
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		now, err := objects(l)
		if err != nil || maps.Equal(now, before) {
			return err
		}
		if time.Since(start) > startPatience {
			return fmt.Errorf("left in the kernel: %v, before: %v", now, before)
		}
	}
}
