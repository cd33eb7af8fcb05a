//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// memoryOf returns the resident memory of a process in bytes: private memory, and mapped files, which are
// programs, which don't grow, and queues, which the kernel created.
func memoryOf(p *companion) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	return kib(text, "RssAnon:") + kib(text, "RssFile:") + kib(text, "RssShmem:"), err
}

// kib returns the value in bytes of a line such as "RssAnon:   2032 kB".
func kib(text []byte, name string) float64 {
	_, rest, _ := strings.Cut(string(text), "\n"+name)
	var n float64
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return 0
	}
	return n * 1024
}

// measureIdle measures the memory of connections that wait for a message at both ends.
func measureIdle(b *bench, r scaleRow, l *link) error {
	at, n := l.addr+":"+scalePort, strconv.Itoa(r.n)
	servers := b.twins("serve", at)
	var entrants []entrant
	for i, t := range b.twins("conns", n, at) {
		entrants = append(entrants, entrant{t.impl, func() (samples []result.Sample, err error) {
			err = b.serving(servers[i].argv, func(server *companion) error {
				grown, err := b.grow(t, server)
				if err != nil {
					return err
				}
				for i, end := range []string{"dialled", "accepted"} {
					samples = append(samples, result.Sample{Measure: "memory per connection",
						Params: fmt.Sprintf("%s, %d connections", end, r.n), Unit: "bytes", Value: grown[i] / float64(r.n)})
				}
				return nil
			})
			return of(l, t.impl, samples), err
		}})
	}
	return b.interleave(entrants...)
}

// grow runs a program that opens connections. It returns the growth in memory of the program and of its
// server between the first connection and the last.
func (b *bench) grow(t twin, server *companion) (grown [2]float64, err error) {
	p, err := b.start(t.argv)
	if err != nil {
		return grown, err
	}
	before, err := b.look(p, server)
	if err != nil {
		return grown, err
	}
	after, err := b.look(p, server)
	if err != nil {
		return grown, err
	}
	for i := range grown {
		grown[i] = after[i] - before[i]
	}
	return grown, p.end()
}

// look waits until p has opened its connections, reads the memory of both programs and lets p continue.
func (b *bench) look(p, server *companion) (seen [2]float64, err error) {
	if _, err := p.says(); err != nil {
		return seen, err
	}
	for i, c := range []*companion{p, server} {
		if seen[i], err = memoryOf(c); err != nil {
			return seen, err
		}
	}
	_, err = fmt.Fprintln(p.in)
	return seen, err
}
