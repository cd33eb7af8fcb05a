//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A pair is two ends of one exchange, both on this machine.
type pair struct {
	server, client []string
	port           int   // TCP's where the server listens, unless
	cm             *link // it listens through rdma_cm, on this link
}

// An outcome holds the output and the resources of a pair.
type outcome struct {
	client, server []byte
	cpu            time.Duration // of both ends, in user space and in the kernel
}

// Some of perftest's exchanges never end: with -e on rxe an event gets lost now
// and then. So a pair has ten times the time that it needs, and several tries.
const (
	pairPatience = 15 * time.Second
	tries        = 4
)

// clockTries is how often perftest may find out in vain how fast the CPU's clock is, which it
// takes an undisturbed while for.
const clockTries = 50

// play runs a pair. One that fails or hangs is logged and played again.
func (b *bench) play(p pair) (outcome, error) {
	return again(b, func(patience time.Duration) (outcome, error) { return b.playOnce(p, patience) })
}

// playReport runs a pair whose client reports as perftest does.
func (b *bench) playReport(p pair) (report, error) {
	return again(b, func(patience time.Duration) (report, error) {
		o, err := b.playOnce(p, patience)
		if err != nil {
			return report{}, err
		}
		return parseReport(o.client)
	})
}

func again[T any](b *bench, try func(patience time.Duration) (T, error)) (got T, err error) {
	for n, clockless := 0, 0; n < tries; {
		if got, err = try(pairPatience << n); err == nil {
			return got, nil
		}
		b.progress("once more: %v", err)
		if errors.Is(err, errNoClock) && clockless < clockTries {
			clockless++
		} else {
			n++
		}
	}
	return got, err
}

func (b *bench) playOnce(p pair, patience time.Duration) (outcome, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	up, err := b.listening(p)
	if err != nil {
		return outcome{}, err
	}
	server, serverOut := end(ctx, p.server)
	if err := server.Start(); err != nil {
		return outcome{}, err
	}
	for start := time.Now(); !up() && ctx.Err() == nil && time.Since(start) < startPatience; {
		time.Sleep(5 * time.Millisecond)
	}
	client, clientOut := end(ctx, p.client)
	err = client.Run()
	if err != nil {
		cancel() // the server would wait for a client
	}
	err = errors.Join(err, server.Wait())
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w: %s", strings.Join(client.Args, " "), err, lastLine(clientOut.String(), serverOut.String()))
	}
	return outcome{clientOut.Bytes(), serverOut.Bytes(), used(client.ProcessState) + used(server.ProcessState)}, nil
}

// end is a command with its output and complaints in one buffer, killed with ctx.
func end(ctx context.Context, argv []string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, out
}

func used(p *os.ProcessState) time.Duration { return p.UserTime() + p.SystemTime() }

// startPatience is for a server to start and listen.
const startPatience = time.Minute

// listening returns a function that reports whether p's server listens, once it is started.
func (b *bench) listening(p pair) (func() bool, error) {
	if p.cm == nil {
		v4 := fmt.Sprintf(":%04X 00000000:0000 0A", p.port)
		v6 := fmt.Sprintf(":%04X %s:0000 0A", p.port, strings.Repeat("0", 32))
		return func() bool { return holds("/proc/net/tcp", v4) || holds("/proc/net/tcp6", v6) }, nil
	}
	before, err := b.listeners(p.cm)
	return func() bool { now, err := b.listeners(p.cm); return err == nil && now > before }, err
}

func holds(file, text string) bool {
	all, err := os.ReadFile(file)
	return err == nil && bytes.Contains(all, []byte(text))
}

// lastLine returns the last line of some output, for an error.
func lastLine(texts ...string) string {
	var last []string
	for _, text := range texts {
		text = strings.TrimSpace(text)
		last = append(last, fmt.Sprintf("%q", text[strings.LastIndexByte(text, '\n')+1:]))
	}
	return strings.Join(last, ", ")
}

// comm is the name that the kernel knows a program's threads by.
func comm(argv []string) string {
	name := filepath.Base(argv[0])
	return name[:min(len(name), 15)]
}
