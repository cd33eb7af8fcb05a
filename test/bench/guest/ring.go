//go:build linux

package main

import (
	"slices"
	"strconv"

	"github.com/goverbs/goverbs/test/bench/result"
)

// ring runs the programs that fill and empty the queues of each driver.
func ring(b *bench) error {
	rounds, clock := 200, "ns"
	if b.icount {
		rounds, clock = 21, "insn" // every one of them takes the same
	}
	if b.quick {
		rounds = 11
	}
	for _, driver := range drivers {
		l, err := b.link(driver)
		if err != nil {
			return err
		}
		b.tell("%s, %d rounds", driver, rounds)
		args := []string{"-driver", driver, "-dev", l.name, "-addr", l.addr, "-n", strconv.Itoa(rounds), "-clock", clock}
		err = b.interleave(
			b.ringProgram("rdma-core", "c-ring", args...),
			b.ringProgram("goverbs", "ring", args...),
			b.ringProgram("cgo", "cgo", args...))
		if err != nil {
			return err
		}
	}
	return nil
}

// ringProgram leaves out the time of what is a system call, which is no real
// kernel's where the rest runs at native speed.
func (b *bench) ringProgram(impl, program string, args ...string) entrant {
	e := b.printer(impl, program, args...)
	return entrant{impl, func() ([]result.Sample, error) {
		samples, err := e.run()
		return slices.DeleteFunc(samples, func(s result.Sample) bool {
			return s.Measure == "arm" && s.Driver == "rxe" && s.Unit == "ns"
		}), err
	}}
}
