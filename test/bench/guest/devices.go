//go:build linux

package main

import "strconv"

// devices measures the devices in software of package rdmatest, in one process without a kernel's RDMA, beside an
// earlier commit's.
func devices(b *bench) error {
	rounds, conns := 201, 1000
	if b.icount {
		rounds, conns = 21, 100
	}
	b.progress("%d rounds", rounds)
	args := []string{"-n", strconv.Itoa(rounds), "-conns", strconv.Itoa(conns)}
	if b.check { // without the rows that depend on the scheduler, and without the earlier commit, which a shallow clone lacks
		return b.interleave(b.printer("goverbs", "devices", append(args, "-only", "list|polled")...))
	}
	return b.interleave(b.printer("goverbs", "devices", args...), b.printer("before", "devices-before", args...))
}
