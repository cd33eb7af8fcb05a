//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/goverbs/goverbs/test/bench/result"
)

// calls counts system calls, wake-ups and context switches per message, at both ends together:
// those that an exchange takes, without starting and ending, is the difference between a long
// one and a short one.
func calls(b *bench) error {
	if err := errors.Join(b.twoProcs(), enableTracepoints()); err != nil {
		return err
	}
	some := *b
	some.runs = min(b.runs, 3) // they differ less
	return forEach(b, callRows(b), func(r callRow, l *link) error {
		var entrants []entrant
		for _, impl := range r.impls {
			entrants = append(entrants, entrant{impl, func() ([]result.Sample, error) { return b.countCalls(r, impl, l) }})
		}
		return some.interleave(entrants...)
	})
}

// runtimes are the calls that Go's runtime makes to look after its threads. How
// many depends on how long the exchange takes, not on its messages. mmap and munmap
// are not among them, because they map the queues of each connection, in C too.
var runtimes = []string{
	"nanosleep", "futex", "sched_yield", "getpid", "gettid", "tgkill", "rt_sigreturn", "rt_sigprocmask",
	"sigaltstack", "sched_getaffinity", "madvise", "clone",
}

// countCalls plays a row twice and counts the calls of the difference.
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
	if !r.polled { // otherwise no end sleeps, and what is woken is threads of Go's runtime
		wakeUps := found[1].wakeUps - found[0].wakeUps
		if isGo {
			wakeUps -= long["nanosleep"] - short["nanosleep"] // of the runtime's monitor, by the clock
		}
		samples = append(samples,
			sample("wake_ups", r.name, wakeUps),
			sample("context_switches", r.name, found[1].contextSwitches-found[0].contextSwitches))
	}
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(long)) {
		more := long[name] - short[name]
		sum += more
		if float64(more) >= per/200 { // rarer calls are chance
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
		rings := 0 // a doorbell is a write, or an ioctl where that is refused
		for _, name := range []string{"write", "ioctl"} {
			rings += long[name] - short[name]
		}
		samples = append(samples, sample("doorbells", r.name, rings))
	}
	return samples, nil
}
