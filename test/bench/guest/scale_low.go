//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

// cmtimeMost is the largest number of connections that cmtime can have over siw. libsiw treats the
// queue after 144 pages of queues as a failure (../c/peer.h).
const cmtimeMost = 71

// measureLow compares librdmacm's cmtime with a program that does the same with
// EventChannel and ID. Both take all connections through one step before the next.
func measureLow(b *bench, r scaleRow, l *link) error {
	at := l.addr + ":" + scalePort
	ours := b.low(r.n, at)
	entrants := []entrant{{"goverbs", func() ([]result.Sample, error) { return b.served(l, ours) }}}
	if l.driver == "siw" && r.n > cmtimeMost {
		b.progress("cmtime can't have more than %d connections over siw", cmtimeMost)
	} else {
		entrants = append(entrants, entrant{"cmtime", func() ([]result.Sample, error) { return b.cmtime(r.n, l) }})
	}
	return b.interleave(entrants...)
}

// cmtime runs a server and a client of librdmacm's cmtime. The server does not report when
// it listens, so cmtime waits until the link has one more ID. The server never exits, so
// cmtime kills it.
func (b *bench) cmtime(n int, l *link) ([]result.Sample, error) {
	before, err := b.ids(l)
	if err != nil {
		return nil, err
	}
	server, err := b.start([]string{"cmtime", "-b", l.addr, "-p", scalePort})
	if err != nil {
		return nil, err
	}
	defer func() {
		server.cmd.Process.Kill()
		_ = server.end() // the error says that it was killed
	}()
	for start := time.Now(); time.Since(start) < startPatience; time.Sleep(5 * time.Millisecond) {
		if now, err := b.ids(l); err != nil || now > before {
			break
		}
	}
	text, err := b.output("timeout", "60", "cmtime", "-b", l.addr, "-s", l.addr, "-p", scalePort, "-c", strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	samples, err := cmtimeSamples(text, n)
	return of(l, "cmtime", samples), err
}

// cmtimeSamples parses the table at the end of cmtime's output. Its columns are the step, the total,
// longest and shortest time in ms, and µs per connection. cmtime continues after failures, so
// cmtimeSamples also checks for the failures that it prints before the table.
func cmtimeSamples(text []byte, n int) ([]result.Sample, error) {
	var samples []result.Sample
	var connect, disconnect float64 // in ms
	_, table, ok := bytes.Cut(text, []byte("us / conn\n"))
	if at := bytes.Index(text, []byte("ail")); !ok || at >= 0 || bytes.Contains(text, []byte("error:")) {
		return nil, fmt.Errorf("cmtime: %s", lastLine(string(text)))
	}
	all := fmt.Sprintf("all at once, %d connections", n)
	for line := range strings.Lines(string(table)) {
		step, numbers, ok := strings.Cut(line, ":")
		step = strings.TrimSpace(step)
		var total, longest, shortest, each float64
		if _, err := fmt.Sscan(numbers, &total, &longest, &shortest, &each); !ok || err != nil {
			return nil, fmt.Errorf("cmtime: line %q: %w", line, err)
		}
		if step == "disconnect" || step == "destroy" {
			disconnect += total
		} else {
			connect += total
		}
		samples = append(samples, result.Sample{Measure: "connect step", Params: step + ", " + all, Unit: "µs/connection", Value: each})
	}
	return append(samples,
		result.Sample{Measure: "connect rate", Params: all, Unit: "connections/s", Value: float64(n) / connect * 1e3},
		result.Sample{Measure: "disconnect rate", Params: all, Unit: "connections/s", Value: float64(n) / disconnect * 1e3}), nil
}
