//go:build linux

package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

const scalePort = "7480"

// measureRate measures the rate of connections, with c at a time. goverbs uses Dial and Accept, C a
// thread for each connection.
func measureRate(b *bench, r scaleRow, l *link) error {
	at := l.addr + ":" + scalePort
	var entrants []entrant
	for _, impl := range []string{"goverbs", "rdma-core"} {
		d := b.dialling(impl, r.n, r.c, at)
		entrants = append(entrants, entrant{impl, func() ([]result.Sample, error) { return b.served(l, d) }})
	}
	return b.interleave(entrants...)
}

// A dialogue is a client that prints samples, and its server.
type dialogue struct {
	server []string
	client twin
}

// dialling returns the programs that connect n times, c at a time.
func (b *bench) dialling(impl string, n, c int, at string) dialogue {
	program := b.program("scale")
	if impl != "goverbs" {
		program = b.program("c-scale")
	}
	return dialogue{[]string{program, "serve", at}, twin{impl, []string{program, "dial", strconv.Itoa(n), strconv.Itoa(c), at}}}
}

// low returns the programs that connect as cmtime does.
func (b *bench) low(n int, at string) dialogue {
	program := b.program("scale")
	return dialogue{[]string{program, "low-serve", at}, twin{"goverbs", []string{program, "low", strconv.Itoa(n), at}}}
}

// served runs a client with its server.
func (b *bench) served(l *link, d dialogue) (samples []result.Sample, err error) {
	err = b.serving(d.server, func(*companion) (err error) {
		samples, err = b.samples(l, d.client)
		return err
	})
	return samples, err
}

// samples runs a program and returns the samples that it prints.
func (b *bench) samples(l *link, t twin) ([]result.Sample, error) {
	text, err := b.output(t.argv[0], t.argv[1:]...)
	if err != nil {
		return nil, err
	}
	samples, err := parseSamples(text)
	return of(l, t.impl, samples), err
}

// measureSetup measures the time from the start of a process until it has received its first byte. Both
// the process and its parent measure.
func measureSetup(b *bench, r scaleRow, l *link) error {
	at := l.addr + ":" + scalePort
	servers := b.twins([]string{"serve", at}, []string{"c-scale", "serve", at})
	var entrants []entrant
	for i, client := range b.twins([]string{"setup", at}, []string{"c-setup", at}) {
		entrants = append(entrants, entrant{client.impl, func() (samples []result.Sample, err error) {
			err = b.serving(servers[i].argv, func(*companion) (err error) {
				samples, err = b.setup(l, client)
				return err
			})
			return samples, err
		}})
	}
	return b.interleave(entrants...)
}

// setup runs a client twice. The first run only warms up caches and the server.
func (b *bench) setup(l *link, t twin) ([]result.Sample, error) {
	if _, err := b.output(t.argv[0], t.argv[1:]...); err != nil {
		return nil, err
	}
	start := time.Now()
	client, err := b.start(t.argv)
	if err != nil {
		return nil, err
	}
	line, err := client.says()
	took := time.Since(start)
	if err != nil {
		return nil, err
	}
	samples, err := parseSamples([]byte(line))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", line, err)
	}
	samples = append(samples, result.Sample{Measure: "set-up time", Params: "exec to first byte", Unit: "ms", Value: took.Seconds() * 1e3})
	return of(l, t.impl, samples), client.end()
}
