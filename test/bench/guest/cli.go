//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

// cli compares rdmalink with iproute2's rdma.
func cli(b *bench) error {
	if _, err := b.link("rxe"); err != nil {
		return err
	}
	for _, c := range []struct {
		name     string
		ours, it []string
	}{
		{"version", []string{"-V"}, []string{"-V"}},
		{"show links", []string{"show"}, []string{"link"}},
		{"count resources", []string{"resource", "show"}, []string{"resource", "show"}},
	} {
		b.progress("%s", c.name)
		if err := b.interleave(b.commandRun("rdma", c.name, c.it), b.commandRun("rdmalink", c.name, c.ours)); err != nil {
			return err
		}
	}
	if err := b.manyQueuePairs(); err != nil {
		return err
	}
	return b.interleave(entrant{"goverbs", func() ([]result.Sample, error) {
		info, err := os.Stat(b.program("rdmalink"))
		if err != nil {
			return nil, err
		}
		return []result.Sample{{Measure: "size of the static binary", Unit: "MiB", Value: float64(info.Size()) / (1 << 20)}}, nil
	}})
}

// commandRun returns an entrant that runs a command several times. It measures the median time and the
// peak memory.
func (b *bench) commandRun(program, name string, args []string) entrant {
	impl := "iproute2"
	if program == "rdmalink" {
		impl, program = "goverbs", b.program(program)
	}
	return entrant{impl, func() ([]result.Sample, error) {
		times := 9
		if b.check {
			times = 1
		}
		var took []time.Duration
		for range times {
			cmd := exec.CommandContext(b.ctx, program, args...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			start := time.Now()
			err := cmd.Run()
			took = append(took, time.Since(start))
			if err != nil {
				return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, lastLine(errs.String()))
			}
		}
		memory, err := peakMemory(program, args)
		if err != nil {
			return nil, err
		}
		return []result.Sample{
			{Measure: "command time", Params: name, Unit: "ms", Value: median(took).Seconds() * 1e3},
			{Measure: "command peak memory", Params: name, Unit: "MiB", Value: float64(memory) / 1024},
		}, nil
	}}
}
