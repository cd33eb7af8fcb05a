//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// memory is the resident memory of a process, in bytes, and its open descriptors.
type memory struct {
	private     float64 // private memory
	queues      float64 // mapped files: programs, which don't grow, and queues, which the kernel created
	descriptors float64
}

func (m memory) minus(o memory) memory {
	return memory{m.private - o.private, m.queues - o.queues, m.descriptors - o.descriptors}
}

func memoryOf(p *companion) (memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return memory{}, err
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		return memory{}, err
	}
	return memory{kib(text, "RssAnon:"), kib(text, "RssFile:") + kib(text, "RssShmem:"), float64(len(files))}, nil
}

// freeMemory returns the kernel's free memory.
func freeMemory() (float64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	return kib(text, "MemFree:") + kib(text, "Buffers:") + kib(text, "Cached:"), err
}

// kib returns the value in bytes of a line such as "RssAnon:   2032 kB".
func kib(text []byte, name string) float64 {
	_, rest, _ := strings.Cut(string(text), "\n"+name)
	var n float64
	if _, err := fmt.Sscan(rest, &n); err != nil {
		return 0
	}
	return n * 1024
}

// samplesOf returns the samples for the memory of each of n objects of a kind, in total and by part.
func (m memory) samplesOf(kind, params string, n int) []result.Sample {
	each := func(part string, bytes float64) result.Sample {
		return result.Sample{Measure: part + kind, Params: params, Unit: "bytes", Value: bytes / float64(n)}
	}
	return []result.Sample{
		each("memory per ", m.private+m.queues),
		each("private memory per ", m.private),
		each("queue memory per ", m.queues),
	}
}

// kernelSamples returns the sample for the memory of the kernel. It returns none for small numbers of
// objects, whose memory is small compared with other changes in the kernel.
func kernelSamples(kind, params string, n int, bytes float64) []result.Sample {
	if n < 1000 {
		return nil
	}
	return []result.Sample{{Measure: "kernel memory per " + kind, Params: params, Unit: "bytes", Value: bytes / float64(n)}}
}

// measurePairs measures the memory of idle queue pairs.
func measurePairs(b *bench, r scaleRow, l *link) error {
	n := strconv.Itoa(r.n)
	var entrants []entrant
	for _, t := range b.twins([]string{"qps", n, l.name}, []string{"c-scale", "qps", n, l.name}) {
		entrants = append(entrants, entrant{t.impl, func() ([]result.Sample, error) {
			grown, kernel, err := b.grow(t)
			params := fmt.Sprintf("%d QPs", r.n)
			samples := grown[0].samplesOf("QP", params, r.n)
			return of(l, t.impl, append(samples, kernelSamples("QP", params, r.n, kernel)...)), err
		}})
	}
	return b.interleave(entrants...)
}

// measureIdle measures the memory of connections that wait for a message at both ends.
func measureIdle(b *bench, r scaleRow, l *link) error {
	return b.measureHeld(r, l, "connection", "serve", "conns")
}

// measureStreams measures the memory of byte streams at both ends. librdmacm takes 0.1 s for each, so it
// opens only the smallest number.
func measureStreams(b *bench, r scaleRow, l *link) error {
	some := *b
	some.alone = r.n > 100
	return some.measureHeld(r, l, "stream", "stream-serve", "streams")
}

// measureHeld measures the memory and the descriptors of connections of a kind. serve and hold are the
// commands of the programs at the two ends.
func (b *bench) measureHeld(r scaleRow, l *link, kind, serve, hold string) error {
	at, n := l.addr+":"+scalePort, strconv.Itoa(r.n)
	servers := b.twins([]string{serve, at}, []string{"c-scale", serve, at})
	var entrants []entrant
	for i, t := range b.twins([]string{hold, n, at}, []string{"c-scale", hold, n, at}) {
		entrants = append(entrants, entrant{t.impl, func() (samples []result.Sample, err error) {
			err = b.serving(servers[i].argv, func(server *companion) error {
				grown, kernel, err := b.grow(t, server)
				if err != nil {
					return err
				}
				params := fmt.Sprintf("%d %ss", r.n, kind)
				samples = append(grown[0].samplesOf(kind, "dialled, "+params, r.n), grown[1].samplesOf(kind, "accepted, "+params, r.n)...)
				samples = append(samples, kernelSamples(kind, "both ends, "+params, r.n, kernel)...)
				for end, m := range map[string]memory{"dialled": grown[0], "accepted": grown[1]} {
					samples = append(samples, result.Sample{Measure: "descriptors per " + kind, Params: end + ", " + params, Unit: "descriptors", Value: m.descriptors / float64(r.n)})
				}
				return nil
			})
			return of(l, t.impl, samples), err
		}})
	}
	return b.interleave(entrants...)
}

// grow runs a program that creates objects. It returns the growth in memory of the program, of the
// others and of the kernel between the first object and the last. The memory of the kernel is all memory
// but the private memory of processes, so it includes queues.
func (b *bench) grow(t twin, others ...*companion) (grown []memory, kernel float64, err error) {
	p, err := b.start(t.argv)
	if err != nil {
		return make([]memory, 2), 0, err
	}
	all := append([]*companion{p}, others...)
	before, free, err := b.look(p, all)
	if err != nil {
		return make([]memory, 2), 0, err
	}
	after, left, err := b.look(p, all)
	if err != nil {
		return make([]memory, 2), 0, err
	}
	kernel = free - left
	for i := range all {
		grown = append(grown, after[i].minus(before[i]))
		kernel -= grown[i].private
	}
	return grown, kernel, p.end()
}

// look waits until p has created its objects, reads the memory of all programs and lets p continue.
func (b *bench) look(p *companion, all []*companion) (seen []memory, free float64, err error) {
	if _, err := p.says(); err != nil {
		return nil, 0, err
	}
	for _, c := range all {
		m, err := memoryOf(c)
		if err != nil {
			return nil, 0, err
		}
		seen = append(seen, m)
	}
	if free, err = freeMemory(); err != nil {
		return nil, 0, err
	}
	_, err = fmt.Fprintln(p.in)
	return seen, free, err
}
