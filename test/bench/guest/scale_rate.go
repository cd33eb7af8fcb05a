//go:build linux

package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

const scalePort = "7480"

// measureRate connects some at a time, with Dial and Accept on one side and a
// thread for each on the other.
func measureRate(b *bench, r scaleRow, l *link) error {
	at := l.addr + ":" + scalePort
	var entrants []entrant
	for _, impl := range []string{"goverbs", "rdma-core"} {
		d := b.dialling(impl, r.n, r.c, at)
		entrants = append(entrants, entrant{impl, func() ([]result.Sample, error) { return b.served(l, d) }})
	}
	return b.interleave(entrants...)
}

// A dialogue is a client that prints samples, and the server that it needs.
type dialogue struct {
	server []string
	client twin
}

// dialling is the program that connects n times, c at a time.
func (b *bench) dialling(impl string, n, c int, at string) dialogue {
	program := b.program("scale")
	if impl != "goverbs" {
		program = b.program("c-scale")
	}
	return dialogue{[]string{program, "serve", at}, twin{impl, []string{program, "dial", strconv.Itoa(n), strconv.Itoa(c), at}}}
}

// low is the program that connects as cmtime does.
func (b *bench) low(n int, at string) dialogue {
	program := b.program("scale")
	return dialogue{[]string{program, "low-serve", at}, twin{"goverbs", []string{program, "low", strconv.Itoa(n), at}}}
}

// served runs a client beside its server.
func (b *bench) served(l *link, d dialogue) (samples []result.Sample, err error) {
	err = b.serving(d.server, func(*companion) (err error) {
		samples, err = b.samples(l, d.client)
		return err
	})
	return samples, err
}

// samples runs a program that prints some.
func (b *bench) samples(l *link, t twin) ([]result.Sample, error) {
	text, err := b.output(t.argv[0], t.argv[1:]...)
	if err != nil {
		return nil, err
	}
	samples, err := parseSamples(text)
	return of(l, t.impl, samples), err
}

// measureSetup times a fresh process until its first byte has come: as it sees
// that, and as who started it does.
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

// setup runs a client twice: the first one makes files and the server warm.
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
