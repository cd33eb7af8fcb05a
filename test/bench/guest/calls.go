//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goverbs/goverbs/test/bench/result"
)

// calls counts system calls, wake-ups and context switches per message, for both ends together. It
// subtracts the counts of a short exchange from those of a long one, which removes those of starting
// and ending.
func calls(b *bench) error {
	if err := errors.Join(b.twoProcs(), enableTracepoints()); err != nil {
		return err
	}
	some := *b
	some.runs = min(b.runs, 3) // their spread is small
	return forEach(b, callRows(b), func(r callRow, l *link) error {
		var entrants []entrant
		for _, impl := range r.impls {
			entrants = append(entrants, entrant{impl, func() ([]result.Sample, error) { return b.countCalls(r, impl, l) }})
		}
		return some.interleave(entrants...)
	})
}

// runtimes holds the system calls that Go's runtime makes to manage its threads. Their number depends
// on the duration of the exchange, not on its messages. It does not hold mmap and munmap, because they
// map the queues of each connection, as in C.
var runtimes = []string{
	"nanosleep", "futex", "sched_yield", "getpid", "gettid", "tgkill", "rt_sigreturn", "rt_sigprocmask",
	"sigaltstack", "sched_getaffinity", "madvise", "clone",
}

// countCalls runs a row twice and returns the difference of the counts.
func (b *bench) countCalls(r callRow, impl string, l *link) ([]result.Sample, error) {
	var found [2]counts
	var messages [2]int
	for i := range found {
		x := r.exchange(b, impl, l, i == 1)
		messages[i] = x.n
		var err error
		if found[i], err = during(x.comm, x.play); err != nil {
			return nil, err
		}
	}
	per := float64(messages[1] - messages[0])
	sample := func(measure, params string, calls int) result.Sample {
		return result.Sample{Measure: measure, Driver: l.driver, Params: params, Unit: "a " + r.unit, Value: float64(calls) / per}
	}
	short, long := found[0].calls, found[1].calls
	isGo := impl == "goverbs" || impl == "verbs"
	var samples []result.Sample
	if !r.polled { // otherwise no end sleeps, and all wake-ups are of the runtime's threads
		wakeUps := found[1].wakeUps - found[0].wakeUps
		if isGo {
			wakeUps -= long["nanosleep"] - short["nanosleep"] // wake-ups of the runtime's monitor, which depend on time
		}
		samples = append(samples,
			sample("wake_ups", r.name, wakeUps),
			sample("context_switches", r.name, found[1].contextSwitches-found[0].contextSwitches))
	}
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(long)) {
		more := long[name] - short[name]
		sum += more
		if float64(more) >= per/200 { // rarer calls are random
			samples = append(samples, sample("system_calls_named", fmt.Sprintf("%s: %s", r.name, name), more))
		}
	}
	samples = append(samples, sample("system_calls", r.name, sum))
	if isGo {
		for _, name := range runtimes {
			sum -= long[name] - short[name]
		}
	}
	samples = append(samples, sample("system_calls_but_runtime", r.name, sum))
	if r.polled {
		rings := 0 // a doorbell is a write, or an ioctl if write is refused
		for _, name := range []string{"write", "ioctl"} {
			rings += long[name] - short[name]
		}
		samples = append(samples, sample("doorbells", r.name, rings))
	}
	return samples, nil
}
