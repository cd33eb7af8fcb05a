//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// An entrant is one implementation. Its function run returns samples, whose fields for the
// implementation, the suite and the environment may be empty.
type entrant struct {
	impl string
	run  func() ([]result.Sample, error)
}

// impls returns the implementations to run. A check compares implementations by instructions,
// never by time. If the clock does not count instructions, a check runs only goverbs.
func (b *bench) impls(all ...string) []string {
	if b.check && !b.icount {
		return []string{"goverbs"}
	}
	return all
}

// interleave runs all entrants once, then all of them again, and so on, so that a disturbance of the
// machine affects all of them. After an entrant has failed twice, it is left out.
func (b *bench) interleave(entrants ...entrant) error {
	failures := make(map[string][]error)
	for run := 1; run <= b.runs; run++ {
		for _, e := range entrants {
			if len(failures[e.impl]) == 2 {
				continue
			}
			samples, err := e.run()
			if err != nil {
				failures[e.impl] = append(failures[e.impl], fmt.Errorf("%s: run %d: %w", e.impl, run, err))
				continue
			}
			for _, s := range samples {
				s.Run = run
				if s.Impl == "" {
					s.Impl = e.impl
				}
				if err := b.emit(s); err != nil {
					return err
				}
			}
		}
	}
	var all []error
	for _, e := range entrants {
		all = append(all, failures[e.impl]...)
	}
	return errors.Join(all...)
}

// printer returns an entrant that runs a program and parses the samples that it prints.
func (b *bench) printer(impl, program string, args ...string) entrant {
	return entrant{impl, func() ([]result.Sample, error) {
		text, err := b.output(b.program(program), args...)
		if err != nil {
			return nil, err
		}
		return parseSamples(text)
	}}
}

// output runs a command and returns its standard output. An error contains the standard error.
func (b *bench) output(argv0 string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(b.ctx, argv0, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(errs.String() + out.String())
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said)
	}
	return out.Bytes(), nil
}

func parseSamples(text []byte) ([]result.Sample, error) {
	var samples []result.Sample
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var s result.Sample
		switch err := dec.Decode(&s); {
		case errors.Is(err, io.EOF):
			return samples, nil
		case err != nil:
			return nil, fmt.Errorf("sample %d of the output: %w", len(samples)+1, err)
		}
		samples = append(samples, s)
	}
}
