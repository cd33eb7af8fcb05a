//go:build linux

package main

import (
	"fmt"
	"strconv"
)

// A callRow is an exchange whose system calls are counted.
type callRow struct {
	name     string
	unit     string // message, ping or connection
	drivers  []string
	impls    []string
	polled   bool // both ends poll, so all system calls are doorbells
	exchange func(b *bench, impl string, l *link, long bool) exchange
}

// An exchange is n messages, pings or connections between programs of one name.
type exchange struct {
	comm string
	n    int
	play func() error
}

// exchange returns an exchange of n messages.
func (b *bench) exchange(p pair, n int) exchange {
	return exchange{comm(p.server), n, func() error { _, err := b.play(p); return err }}
}

func (r callRow) String() string   { return r.name }
func (r callRow) runsOn() []string { return r.drivers }
func perftestRow(t test) callRow {
	return callRow{
		name: t.String(), unit: "message", drivers: t.runsOn(), impls: []string{"perftest", "goverbs"}, polled: !t.events,
		exchange: func(b *bench, impl string, l *link, long bool) exchange {
			t := t
			switch {
			case long && t.kind == "bw":
				// The number of messages per doorbell is random, so use more messages.
				t.iters *= 20
			case long && t.events:
				// The start of perftest alone is switched away from hundreds of times, and not each time as often.
				t.iters *= 20
			case long:
				t.iters *= 4
			}
			return b.exchange(b.pairOf(impl, l, t), t.messages())
		},
	}
}

// callRows returns the rows of the suite calls.
func callRows(b *bench) []callRow {
	var rows []callRow
	for _, op := range []string{"send", "write", "read", "atomic"} {
		rows = append(rows, perftestRow(test{op: op, kind: "lat", size: 2, iters: 200}))
		if op != "write" { // perftest's write has no events
			rows = append(rows, perftestRow(test{op: op, kind: "lat", size: 2, iters: 100, events: true}))
		}
		if op == "send" || op == "read" {
			for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
				t := test{op: op, kind: "lat", size: size, iters: max(5, min(100, 4<<20/size)), events: true}
				if op == "send" {
					t.only = "siw" // on rxe perftest loses an event nearly each time
				}
				rows = append(rows, perftestRow(t))
			}
		}
	}
	for _, list := range []int{1, 16, 64} {
		rows = append(rows, perftestRow(test{op: "send", kind: "bw", size: 64, iters: 640, list: list}))
	}
	rows = append(rows,
		perftestRow(test{op: "write", kind: "bw", size: 64, iters: 640, list: 16}),
		perftestRow(test{op: "send", kind: "bw", size: 64, iters: 640, events: true}))
	rows = append(rows,
		streamCalls(streamRow{"transfer", 64, 100, 1, streamImpls}),
		streamCalls(streamRow{"transfer", 64, 2, 256, streamImpls}),
		streamCalls(streamRow{"transfer", 64 << 10, 2, 16, streamImpls}),
		streamCalls(streamRow{"transfer", 1 << 20, 4, 1, streamImpls}),
		streamCalls(streamRow{"message", 64, 200, 1, messageImpls}))
	rows = append(rows, rpingRow(), pingpongRow(false), pingpongRow(true), dialRow(1), dialRow(16))
	if b.check {
		some := pick(rows, "send lat 2 B", "write bw 64 B, list 16", "connect 1 at a time")
		for i := range some { // on siw the number depends on whether the kernel is still working
			some[i].drivers = []string{"rxe"}
		}
		some[2].impls = []string{"goverbs"} // limits.json has a limit for it
		return some
	}
	return rows
}

func pick(rows []callRow, names ...string) (some []callRow) {
	for _, r := range rows {
		for _, name := range names {
			if r.name == name {
				some = append(some, r)
			}
		}
	}
	return some
}

// streamCalls returns the row for an exchange of the suite stream.
func streamCalls(r streamRow) callRow {
	return callRow{
		name: r.String(), unit: "message", drivers: drivers, impls: r.impls,
		exchange: func(b *bench, impl string, l *link, long bool) exchange {
			r := r
			if long {
				r.rounds *= 4
			}
			return b.exchange(r.pair(b, impl, l), 2*r.rounds*r.count)
		},
	}
}

// count returns the number of pings.
func count(long bool) int {
	if long {
		return 400
	}
	return 100
}

// rpingRow returns the row for librdmacm's rping and ours. A ping consists of a READ, a WRITE and the
// messages that announce them.
func rpingRow() callRow {
	return callRow{
		name: "rping", unit: "ping", drivers: drivers, impls: []string{"rdma-core", "goverbs"},
		exchange: func(b *bench, impl string, l *link, long bool) exchange {
			argv := []string{"rping"}
			if impl == "goverbs" {
				argv = []string{b.program("rdmalink"), "rping"}
			}
			n := count(long)
			common := append(argv, "-a", l.addr, "-C", strconv.Itoa(n))
			return b.exchange(pair{server: with(common, "-s"), client: with(common, "-c"), cm: l}, n)
		},
	}
}

// pingpongRow returns the row for ibv_rc_pingpong and ours. They don't run on siw, whose connections
// need rdma_cm.
func pingpongRow(events bool) callRow {
	const port = 18600
	name := "rc_pingpong"
	if events {
		name += ", events"
	}
	return callRow{
		name: name, unit: "message", drivers: []string{"rxe"}, impls: []string{"rdma-core", "goverbs"}, polled: !events,
		exchange: func(b *bench, impl string, l *link, long bool) exchange {
			argv := []string{"ibv_rc_pingpong"}
			if impl == "goverbs" {
				argv = []string{b.program("rdmalink"), "pingpong", "rc"}
			}
			n := count(long)
			argv = append(argv, "-d", l.name, "-g", l.gid, "-p", fmt.Sprint(port), "-n", strconv.Itoa(n))
			if events {
				argv = append(argv, "-e")
			}
			return b.exchange(pair{server: argv, client: with(argv, l.addr), port: port}, 2*n)
		},
	}
}

// with returns a copy of a command with more arguments.
func with(argv []string, more ...string) []string { return append(argv[:len(argv):len(argv)], more...) }
