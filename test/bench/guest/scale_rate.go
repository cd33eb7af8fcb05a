//go:build linux

package main

import (
	"strconv"

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
