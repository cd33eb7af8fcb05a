//go:build linux

package main

import "strconv"

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
			b.printer("rdma-core", "c-ring", args...),
			b.printer("goverbs", "ring", args...),
			b.printer("cgo", "cgo", args...))
		if err != nil {
			return err
		}
	}
	return nil
}
