//go:build linux

package main

import (
	"fmt"
	"strconv"
)

// A test is a run of perftest's programs or of rdmalink perf.
type test struct {
	op     string // send, write, read, atomic
	kind   string // lat or bw
	size   int    // in bytes
	iters  int    // per QP
	events bool
	depth  int    // outstanding sends; 0 means the default
	list   int    // sends per post; 0 means 1
	qps    int    // 0 means 1
	only   string // driver; "" means all that support the test
}

// perfPort is the port of the servers, which is perftest's default.
const perfPort = 18515

// pairOf returns the two commands of a test.
func (b *bench) pairOf(impl string, l *link, t test) pair {
	argv := []string{fmt.Sprintf("ib_%s_%s", t.op, t.kind), "-F"}
	if impl == "goverbs" {
		argv = []string{b.program("rdmalink"), "perf", t.op, t.kind}
	}
	p := pair{port: perfPort}
	argv = append(argv, "-d", l.name, "-n", strconv.Itoa(t.iters))
	if t.op != "atomic" {
		argv = append(argv, "-s", strconv.Itoa(t.size))
	}
	if l.driver == "siw" {
		argv = append(argv, "-R")
		p.cm = l
	} else {
		argv = append(argv, "-x", l.gid)
	}
	for flag, n := range map[string]int{"-t": t.depth, "-l": t.list, "-q": t.qps} {
		if n > 0 {
			argv = append(argv, flag, strconv.Itoa(n))
		}
	}
	if t.events {
		argv = append(argv, "-e")
	}
	p.server, p.client = argv, with(argv, l.addr)
	return p
}

// String names the test in tables.
func (t test) String() string {
	name := fmt.Sprintf("%s %s %s", t.op, t.kind, sizeText(t.size))
	if t.depth > 0 {
		name += fmt.Sprintf(", %d outstanding", t.depth)
	}
	if t.qps > 1 {
		name += fmt.Sprintf(", %d QPs", t.qps)
	}
	if t.list > 0 {
		name += fmt.Sprintf(", list %d", t.list)
	}
	if t.events {
		name += ", events"
	}
	return name
}

// runsOn returns the drivers that support the test. siw has no atomics.
func (t test) runsOn() []string {
	if t.only != "" {
		return []string{t.only}
	}
	if t.op == "atomic" {
		return []string{"rxe"}
	}
	return drivers
}

// messages returns the number of messages of the test in both directions.
func (t test) messages() int {
	n := t.iters * max(t.qps, 1)
	if t.kind == "lat" && (t.op == "send" || t.op == "write") {
		n *= 2 // in both directions
	}
	return n
}

// sizeText formats a size for tables.
func sizeText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
