// Package dialer holds what the Dialers and ListenConfigs share: attempts at the addresses of a name, dials that are
// repeated, and errors.
package dialer

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"
)

// DefaultDelay is how long Soonest waits for the first address family before it tries the other one too.
const DefaultDelay = 300 * time.Millisecond

// Soonest connects to the addresses of the first address's family in turn. When those have
// failed, or after the delay, it also connects to those of the other family in turn (RFC
// 8305, as package net implements it). It returns the first connection, and closes the one
// that the other family may still get. If ctx ends, it returns the error of the attempt that
// ctx ended.
func Soonest[T io.Closer](ctx context.Context, addrs []netip.AddrPort, delay time.Duration, try func(context.Context, netip.AddrPort) (T, error)) (none T, _ error) {
	firsts, others := families(addrs)
	if len(others) == 0 {
		return FirstOf(ctx, firsts, try)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		found T
		err   error
	}
	results, failed := make(chan result), make(chan struct{})
	returned := make(chan struct{}) // closed when no result is received any more
	defer close(returned)
	run := func(addrs []netip.AddrPort) {
		found, err := FirstOf(ctx, addrs, try)
		select {
		case results <- result{found, err}:
		case <-returned:
			if err == nil {
				found.Close()
			}
		}
	}
	go run(firsts)
	go func() {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-failed:
		case <-returned:
			return
		}
		run(others)
	}()
	first := <-results
	if first.err == nil || ctx.Err() != nil {
		return first.found, first.err
	}
	close(failed)
	second := <-results
	if second.err == nil || ctx.Err() != nil {
		return second.found, second.err
	}
	return none, errors.Join(first.err, second.err)
}

// families returns the addresses of the first one's family, and the others.
func families(addrs []netip.AddrPort) (firsts, others []netip.AddrPort) {
	for _, addr := range addrs {
		if addr.Addr().Is4() == addrs[0].Addr().Is4() {
			firsts = append(firsts, addr)
		} else {
			others = append(others, addr)
		}
	}
	return firsts, others
}

// FirstOf connects to the addresses in turn, and returns the first connection. If all fail,
// its error joins theirs. If ctx ends, it returns the error of the attempt that ctx ended.
func FirstOf[T any](ctx context.Context, addrs []netip.AddrPort, try func(context.Context, netip.AddrPort) (T, error)) (none T, _ error) {
	var errs []error
	for _, addr := range addrs {
		found, err := try(ctx, addr)
		if err == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			return none, err
		}
		errs = append(errs, err)
	}
	return none, errors.Join(errs...)
}
