//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/test/bench/result"
)

// stream measures the layers above the verbs. It compares streams with librdmacm's rstream and with TCP
// on the same interface, messages with plain queue pairs, and HTTP and gRPC over streams with the same
// over TCP.
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
// sends as many back.
type streamRow struct {
	measure             string
	size, rounds, count int
	impls               []string
}

func (r streamRow) String() string   { return r.measure + " " + r.params() }
func (r streamRow) runsOn() []string { return drivers }

func (r streamRow) params() string {
	switch {
	case r.isRequests():
		return fmt.Sprintf("%s, %d clients", byteSize(r.size), r.count)
	case r.count > 1:
		return fmt.Sprintf("%s, %d in a row", byteSize(r.size), r.count)
	}
	return byteSize(r.size)
}

// isRequests reports whether the row measures requests. Then each of count clients makes rounds requests
// in sequence.
func (r streamRow) isRequests() bool { return r.measure == "http" || r.measure == "grpc" }

func byteSize(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

var (
	streamImpls  = []string{"rstream", "goverbs", "tcp"}
	messageImpls = []string{"verbs", "goverbs"}
	requestImpls = []string{"tcp", "goverbs"}
)

func streamRows(b *bench) []streamRow {
	if b.check && b.icount { // only rows whose instructions are compared
		return []streamRow{{"transfer", 64, 100, 1, streamImpls[:2]}, {"message", 64, 500, 1, messageImpls}}
	}
	if b.check || b.quick {
		return []streamRow{
			{"transfer", 64, 100, 1, streamImpls}, {"transfer", 64 << 10, 4, 16, streamImpls},
			{"message", 64, 500, 1, messageImpls}, {"http", 64, 20, 4, requestImpls}, {"grpc", 64, 20, 4, requestImpls},
		}
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
	for _, measure := range []string{"http", "grpc"} {
		rows = append(rows, streamRow{measure, 64, 200, 1, requestImpls}, streamRow{measure, 64, 20, 64, requestImpls}, streamRow{measure, 1 << 20, 8, 4, requestImpls})
	}
	return rows
}

const streamPort = "7490"

// kind returns the stream program's name for an implementation.
func (r streamRow) kind(impl string) string {
	switch {
	case r.isRequests() && impl == "tcp":
		return r.measure + "-tcp"
	case r.isRequests():
		return r.measure + "-rsocket"
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
	if impl == "rstream" {
		args := []string{"rstream", "-T", "b", "-p", streamPort, "-S", strconv.Itoa(r.size), "-I", strconv.Itoa(r.rounds), "-C", strconv.Itoa(r.count)}
		p.server = append(args[:len(args):len(args)], "-b", l.addr)
		p.client = append(args[:len(args):len(args)], "-s", l.addr)
	} else {
		words := []string{r.kind(impl), l.addr + ":" + streamPort, strconv.Itoa(r.size), strconv.Itoa(r.rounds), strconv.Itoa(r.count)}
		program := b.program("stream")
		if r.measure == "grpc" {
			program = filepath.Join(b.bin, "grpc", "bench") // built from a separate module
		}
		p.server = append([]string{program, "serve"}, words...)
		p.client = append([]string{program, "dial"}, words...)
		if impl == "tcp" {
			p.cm = nil
			p.port, _ = strconv.Atoi(streamPort)
		}
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
