//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/goverbs/goverbs/test/bench/result"
)

// An ender is one end of a connection that carries messages.
type ender interface {
	send(context.Context, int) error
	receive(context.Context) error
	close() error
}

func serveMessages(ctx context.Context, x exchange) error {
	accept := acceptMsg
	if x.kind == "verbs" {
		accept = acceptVerbs
	}
	e, err := accept(ctx, x)
	if err != nil {
		return err
	}
	for range x.rounds + warmUp {
		if err := errors.Join(e.receive(ctx), e.send(ctx, x.size)); err != nil {
			return err
		}
	}
	// The client ends the connection after the last answer.
	if err := e.receive(ctx); err == nil {
		return errors.New("a message too many")
	}
	return ignoreEOF(e.close())
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func dialMessages(ctx context.Context, x exchange) ([]result.Sample, error) {
	dial := dialMsg
	if x.kind == "verbs" {
		dial = dialVerbs
	}
	e, err := dial(ctx, x)
	if err != nil {
		return nil, err
	}
	var start time.Time
	var before, after runtime.MemStats
	for i := range x.rounds + warmUp {
		if i == warmUp {
			runtime.ReadMemStats(&before)
			start = time.Now()
		}
		if err := errors.Join(e.send(ctx, x.size), e.receive(ctx)); err != nil {
			return nil, err
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return []result.Sample{ // allocations are rounded down, as by testing.AllocsPerRun
		{Measure: "message", Unit: "µs", Value: 2 * x.each(took)},
		{Measure: "message_allocs", Unit: "allocs", Value: float64((after.Mallocs - before.Mallocs) / uint64(x.rounds))},
	}, e.close()
}
