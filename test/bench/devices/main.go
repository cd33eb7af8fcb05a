// Command devices measures the devices in software of package rdmatest. The benchmark also builds it with
// the packages of an earlier commit, to compare the two.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/test/bench/result"
)

const (
	list  = 64
	long  = 4096 // bytes of a READ
	short = 64   // bytes of a SEND
)

func main() {
	n := flag.Int("n", 51, "rounds")
	conns := flag.Int("conns", 1000, "connections to hold at a time")
	only := flag.String("only", "", "regular expression for the rows to measure")
	profile := flag.String("cpuprofile", "", "file for a profile of the processor's time")
	flag.Parse()
	if *profile != "" {
		out, err := os.Create(*profile)
		if err != nil {
			fmt.Fprintln(os.Stderr, "devices:", err)
			os.Exit(1)
		}
		_ = pprof.StartCPUProfile(out)
		defer pprof.StopCPUProfile()
	}
	for _, kind := range []rdmatest.Kind{rdmatest.RXE, rdmatest.SIW, rdmatest.ERDMA, rdmatest.MLX5} { // those that package rdmacm connects
		if err := measure(kind, *n, *conns, regexp.MustCompile(*only)); err != nil {
			fmt.Fprintln(os.Stderr, "devices:", kind, err)
			os.Exit(1)
		}
	}
}

// surroundings stands in for the test that has a fabric.
type surroundings struct {
	ends []func()
	errs []error
}

func (*surroundings) Helper()                     {}
func (s *surroundings) Cleanup(end func())        { s.ends = append(s.ends, end) }
func (s *surroundings) Errorf(f string, a ...any) { s.errs = append(s.errs, fmt.Errorf(f, a...)) }

// measure prints the samples of a kind of device.
func measure(kind rdmatest.Kind, rounds, conns int, only *regexp.Regexp) (err error) {
	var s surroundings
	defer func() {
		for _, end := range slices.Backward(s.ends) {
			end()
		}
		err = errors.Join(append(s.errs, err)...)
	}()
	f := rdmatest.NewWith(&s, &rdmatest.Options{Kind: kind})
	l, err := rdmacm.Listen(context.Background(), f.Host(1).Addr()+":0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	one, err := connect(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.close()) }()
	p, err := prepare(one)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		measure, params string
		rounds, count   int // count is the number of operations of a round
		run             func() error
	}{
		{"read", "4 KiB, list 64", rounds, list, p.read},
		{"send", "64 B, list 64", rounds, list, p.send},
		{"send latency", "64 B, polled", rounds, list, p.pingPong},
		{"send latency", "64 B, events", rounds, list, p.pingPongWaiting},
		{"connect", "1 at a time", rounds, 1, func() error { return hold(l, 1) }},
		{"connect", fmt.Sprintf("%d held", conns), max(1, rounds/50), conns, func() error { return hold(l, conns) }},
	} {
		if !only.MatchString(kind.String() + " " + m.measure + " " + m.params) {
			continue
		}
		took := make([]float64, m.rounds)
		if err := m.run(); err != nil { // the first one takes the memory of the others
			return fmt.Errorf("%s: %w", m.measure, err)
		}
		for i := range took {
			start := time.Now()
			if err := m.run(); err != nil {
				return fmt.Errorf("%s: %w", m.measure, err)
			}
			took[i] = float64(time.Since(start)) / float64(m.count)
		}
		slices.Sort(took)
		err := result.Write(os.Stdout, result.Sample{Suite: "devices", Measure: m.measure, Driver: kind.String(), Params: m.params, Unit: "ns", Value: took[len(took)/2]})
		if err != nil {
			return err
		}
	}
	return nil
}

// ends holds the two ends of a connection.
type ends struct{ dialled, accepted *rdmacm.Conn }

func connect(l *rdmacm.Listener) (e ends, err error) {
	accepted := make(chan error, 1)
	go func() {
		var err error
		e.accepted, err = l.Accept(context.Background())
		accepted <- err
	}()
	e.dialled, err = rdmacm.Dial(context.Background(), l.Addr().String())
	return e, errors.Join(err, <-accepted)
}

func (e ends) close() error { return errors.Join(e.dialled.Close(), e.accepted.Close()) }

// hold makes n connections and then closes them.
func hold(l *rdmacm.Listener, n int) error {
	all := make([]ends, n)
	for i := range all {
		var err error
		if all[i], err = connect(l); err != nil {
			return err
		}
	}
	for _, e := range all {
		if err := e.close(); err != nil {
			return err
		}
	}
	return nil
}
