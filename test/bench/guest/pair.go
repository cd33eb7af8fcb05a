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

// A pair is the two ends of an exchange, both on this machine.
type pair struct {
	server, client []string
	port           int   // TCP port of the server, if cm is nil
	cm             *link // link on which the server listens through rdma_cm
}

// An outcome holds the output and the resources of a pair.
type outcome struct {
	client, server []byte
	cpu            time.Duration // CPU time of both ends, in user space and in the kernel
}

// Some exchanges of perftest never end, because with -e on rxe an event is lost now and then. So a pair
// has ten times as much time as it needs, and several tries.
const (
	pairPatience = 15 * time.Second
	tries        = 4
)

// clockTries is the number of times that perftest may fail to measure the frequency of the CPU's clock,
// which needs some time without interruption.
const clockTries = 50

// play runs a pair. If the pair fails or hangs, play logs that and tries again.
func (b *bench) play(p pair) (outcome, error) {
	return again(b, func(patience time.Duration) (outcome, error) { return b.playOnce(p, patience) })
}

// playReport runs a pair whose client prints a report in the format of perftest.
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
		cancel() // otherwise the server would wait for a client
	}
	err = errors.Join(err, server.Wait())
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w: %s", strings.Join(client.Args, " "), err, lastLine(clientOut.String(), serverOut.String()))
	}
	return outcome{clientOut.Bytes(), serverOut.Bytes(), used(client.ProcessState) + used(server.ProcessState)}, nil
}

// end returns a command and a buffer for its standard output and standard error. The end of ctx kills
// the command.
func end(ctx context.Context, argv []string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, out
}

func used(p *os.ProcessState) time.Duration { return p.UserTime() + p.SystemTime() }

// startPatience is the time in which a server must start and listen.
const startPatience = time.Minute

// listening returns a function that reports whether the server of p listens. It must be called before
// the server starts.
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

// lastLine returns the last line of output, for errors.
func lastLine(texts ...string) string {
	var last []string
	for _, text := range texts {
		text = strings.TrimSpace(text)
		last = append(last, fmt.Sprintf("%q", text[strings.LastIndexByte(text, '\n')+1:]))
	}
	return strings.Join(last, ", ")
}

// comm returns the kernel's name of the threads of a program.
func comm(argv []string) string {
	name := filepath.Base(argv[0])
	return name[:min(len(name), 15)]
}
