//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// stream measures the layers above the verbs. It compares streams with librdmacm's rstream, and messages and batches
// of READs, of packages msg and transfer, with plain queue pairs.
func stream(b *bench) error {
	if err := b.twoProcs(); err != nil {
		return err
	}
	return forEach(b, streamRows(b), func(r streamRow, l *link) error {
		var entrants []entrant
		for _, impl := range b.impls(r.impls...) {
			entrants = append(entrants, entrant{impl, func() ([]result.Sample, error) { return r.run(b, impl, l) }})
		}
		return b.interleave(entrants...)
	})
}

// A streamRow is one exchange. In each round, the client sends count pieces and the server
// sends as many back. In each round of a batch, the client reads count pieces of the server's memory.
type streamRow struct {
	measure             string
	size, rounds, count int
	impls               []string
}

func (r streamRow) String() string { return r.measure + " " + r.params() }

// runsOn returns the drivers that support the row. Package transfer needs a device that connects without the
// connection manager.
func (r streamRow) runsOn() []string {
	if r.measure == "engine_batch" {
		return []string{"rxe"}
	}
	return drivers
}

func (r streamRow) params() string {
	if r.count > 1 {
		return fmt.Sprintf("%s, %d in a row", sizeText(r.size), r.count)
	}
	return sizeText(r.size)
}

var (
	streamImpls  = []string{"rstream", "goverbs"}
	messageImpls = []string{"verbs", "goverbs"}
)

func streamRows(b *bench) []streamRow {
	if b.check { // only rows whose instructions are compared
		return []streamRow{{"transfer", 64, 100, 1, streamImpls}, {"message", 64, 500, 1, messageImpls}, {"batch", 4 << 10, 50, 64, messageImpls}, {"engine_batch", 4 << 10, 50, 64, messageImpls}}
	}
	var rows []streamRow
	for _, size := range []int{64, 1 << 10, 4 << 10, 64 << 10, 1 << 20} {
		rows = append(rows, streamRow{"transfer", size, min(500, 32<<20/size), 1, streamImpls})
	}
	for _, size := range []int{64, 4 << 10, 64 << 10, 1 << 20} {
		rows = append(rows, streamRow{"transfer", size, 8, max(8, min(256, 4<<20/size)), streamImpls})
	}
	for _, size := range []int{64, 4 << 10, 64 << 10} {
		rows = append(rows, streamRow{"message", size, 500, 1, messageImpls})
	}
	for _, size := range []int{64, 4 << 10} {
		rows = append(rows, streamRow{"batch", size, 50, 64, messageImpls})
	}
	for _, size := range []int{4 << 10, 64 << 10} {
		rows = append(rows, streamRow{"engine_batch", size, 50, 64, messageImpls})
	}
	return rows
}

const streamPort = 7490

// kind returns the stream program's name for an implementation.
func (r streamRow) kind(impl string) string {
	switch {
	case r.measure == "batch" && impl == "goverbs":
		return "msg-batch"
	case r.measure == "engine_batch" && impl == "goverbs":
		return "engine-batch"
	case r.measure == "batch", r.measure == "engine_batch":
		return impl + "-batch"
	case impl != "goverbs":
		return impl
	case r.measure == "message":
		return "msg"
	}
	return "rsocket"
}

// pair returns the two commands of the row.
func (r streamRow) pair(b *bench, impl string, l *link) pair {
	p := pair{cm: l}
	kind, port := r.kind(impl), strconv.Itoa(streamPort)
	if kind == "engine-batch" {
		p = pair{port: streamPort}
	}
	if impl == "rstream" {
		args := []string{"rstream", "-T", "b", "-p", port, "-S", strconv.Itoa(r.size), "-I", strconv.Itoa(r.rounds), "-C", strconv.Itoa(r.count)}
		p.server = append(args[:len(args):len(args)], "-b", l.addr)
		p.client = append(args[:len(args):len(args)], "-s", l.addr)
	} else {
		words := []string{kind, l.addr + ":" + port, strconv.Itoa(r.size), strconv.Itoa(r.rounds), strconv.Itoa(r.count)}
		p.server = append([]string{b.program("stream"), "serve"}, words...)
		p.client = append([]string{b.program("stream"), "dial"}, words...)
	}
	return p
}

func (r streamRow) run(b *bench, impl string, l *link) ([]result.Sample, error) {
	o, err := b.play(r.pair(b, impl, l))
	if err != nil {
		return nil, err
	}
	var samples []result.Sample
	if impl == "rstream" {
		samples, err = rstreamSamples(string(o.client))
	} else {
		samples, err = parseSamples(o.client)
	}
	for i := range samples {
		r.complete(b, &samples[i])
	}
	return of(l, impl, samples), err
}

// complete adds the row's parameters to the sample. If the clock counts instructions, a µs means 1,000
// instructions, and complete sets the unit accordingly.
func (r streamRow) complete(b *bench, s *result.Sample) {
	s.Params = r.params()
	if b.icount && s.Unit == "µs" {
		s.Measure, s.Unit = s.Measure+"_instructions", "1000 instructions"
	}
}

// rstreamSamples parses the last column of rstream's table, which has µs per piece.
func rstreamSamples(text string) ([]result.Sample, error) {
	text = strings.TrimSpace(text)
	us, err := strconv.ParseFloat(text[strings.LastIndexAny(text, " \n")+1:], 64)
	if err != nil || !strings.Contains(text, "usec/xfer") {
		return nil, fmt.Errorf("rstream printed %q", text)
	}
	return []result.Sample{{Measure: "transfer", Unit: "µs", Value: us}}, nil
}
