//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// dialMany measures n dials. An additional connection comes before them, as in C.
func dialMany(n, concurrency int, text string) error {
	addr, err := address(text)
	if err != nil {
		return err
	}
	pd, free, err := sharedPD(addr.Addr()) // both ends are on one device
	if err != nil {
		return err
	}
	warm, err := dial(context.Background(), addr, pd)
	if err != nil {
		return err
	}
	ends := make([]*end, n)
	dialled, err := all(n, concurrency, func(i int) (err error) {
		ends[i], err = dial(context.Background(), addr, pd)
		return err
	})
	if err != nil {
		return err
	}
	closed, err := all(n, concurrency, func(i int) error { return ends[i].conn.Close() })
	if err != nil {
		return err
	}
	params := fmt.Sprintf("%d at a time, %d connections", concurrency, n)
	return errors.Join(
		report("connect rate", params, "connections/s", float64(n)/dialled.Seconds()),
		report("disconnect rate", params, "connections/s", float64(n)/closed.Seconds()),
		warm.conn.Close(), free(), noneLeft())
}

// all runs n steps, concurrency at a time.
func all(n, concurrency int, step func(i int) error) (time.Duration, error) {
	var next atomic.Int64
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	start := time.Now()
	for range concurrency {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := step(i); err != nil {
					once.Do(func() { failed = fmt.Errorf("connection %d of %d: %w", i, n, err) })
					return
				}
			}
		})
	}
	workers.Wait()
	return time.Since(start), failed
}
