// Package dialer tries the addresses of a name.
package dialer

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"
)

// DefaultDelay is how long the first family has before the other is tried beside it.
const DefaultDelay = 300 * time.Millisecond

// Soonest tries the addresses of the first one's family in turn and, when those fail or
// after the delay, the others beside them (RFC 8305, as package net reads it). It returns
// what one of the two gets first, and closes what the other still gets.
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
	results, begin := make(chan result), make(chan struct{})
	given := make(chan struct{}) // nobody takes results any more
	defer close(given)
	run := func(addrs []netip.AddrPort) {
		found, err := FirstOf(ctx, addrs, try)
		select {
		case results <- result{found, err}:
		case <-given:
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
		case <-begin:
		case <-given:
			return
		}
		run(others)
	}()
	first := <-results
	if first.err == nil || ctx.Err() != nil {
		return first.found, first.err
	}
	close(begin)
	second := <-results
	if second.err == nil {
		return second.found, nil
	}
	return none, errors.Join(first.err, second.err)
}

// families parts the addresses by whether they are of the first one's family.
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

// FirstOf goes through addresses until one answers.
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
