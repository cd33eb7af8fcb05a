//go:build linux

package main

import "slices"

// latency returns a latency test. It sends fewer messages if they are large.
func latency(op string, size int, events bool) test {
	t := test{op: op, kind: "lat", size: size, iters: 1000, events: events}
	switch {
	case size >= 1<<20:
		t.iters = 50
	case size >= 1<<16:
		t.iters = 300
	case events:
		t.iters = 400
	}
	return t
}

// bandwidth returns a bandwidth test of 64 MiB or 3000 messages, whichever is less.
func bandwidth(op string, size, depth, qps int) test {
	t := test{op: op, kind: "bw", size: size, depth: depth, qps: qps}
	t.iters = max(min(64<<20/size, 3000)/max(qps, 1), 16)
	return t
}

// perfRows returns the rows of the suite perf.
func perfRows(b *bench) []test {
	rows := allPerfRows(b)
	if b.icount {
		return slices.DeleteFunc(rows, func(t test) bool { return !t.oneCPU() })
	}
	return rows
}

// oneCPU reports whether the test can run on one CPU. At most one end may poll all the time. Two would
// take turns, with a time slice each.
func (t test) oneCPU() bool {
	return t.events || t.op == "read" || t.op == "atomic" || t.op == "write" && t.kind == "bw"
}

func allPerfRows(b *bench) []test {
	var rows []test
	add := func(r ...test) { rows = append(rows, r...) }
	if b.check && b.icount { // the rows whose instructions are compared; on rxe perftest may lose an event
		send, read := latency("send", 2, true), latency("read", 2, true)
		send.only, read.only = "siw", "siw"
		return []test{send, read}
	}
	if b.check {
		// One test for each kind of report. The suite calls runs the same programs.
		lat, bw := latency("send", 2, false), bandwidth("write", 64<<10, 128, 1)
		lat.iters, lat.only = 50, "siw"
		bw.iters, bw.only = 50, "rxe"
		return []test{lat, bw}
	}
	for _, size := range []int{2, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20} {
		add(latency("send", size, false))
	}
	for _, size := range []int{2, 4 << 10, 1 << 20} {
		add(latency("write", size, false), latency("read", size, false))
	}
	add(latency("atomic", 8, false), latency("atomic", 8, true))
	for _, size := range []int{2, 4 << 10, 1 << 20} {
		add(latency("read", size, true))
	}
	for _, size := range []int{2, 4 << 10, 64 << 10, 1 << 20} {
		add(latency("send", size, true))
	}
	for _, size := range []int{2, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20} {
		add(bandwidth("send", size, 128, 1))
	}
	for _, size := range []int{2, 4 << 10, 64 << 10, 1 << 20} {
		add(bandwidth("write", size, 128, 1))
	}
	add(bandwidth("read", 64<<10, 16, 1), bandwidth("atomic", 8, 16, 1))
	for _, depth := range []int{1, 16} {
		add(bandwidth("send", 4<<10, depth, 1), bandwidth("send", 64<<10, depth, 1))
	}
	for _, qps := range []int{4, 16, 64} {
		add(bandwidth("write", 64<<10, 128, qps))
	}
	for _, size := range []int{64, 4 << 10, 64 << 10} {
		r := bandwidth("send", size, 128, 1)
		r.events = true
		add(r)
	}
	return rows
}
