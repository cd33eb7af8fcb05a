package dialer

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// attempt is the outcome of a connection attempt to an address.
type attempt struct {
	takes  time.Duration // 0: for ever
	err    error
	closed bool
}

func (a *attempt) Close() error {
	a.closed = true
	return nil
}

func (a *attempt) make(ctx context.Context) (*attempt, error) {
	var done <-chan time.Time
	if a.takes > 0 {
		done = time.After(a.takes)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-done:
		return a, a.err
	}
}

var (
	one4, two4 = netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:1")
	one6       = netip.MustParseAddrPort("[2001:db8::1]:1")
	errOne     = errors.New("one")
	errTwo     = errors.New("two")
)

// The families of a name are tried beside each other, the addresses of a family in turn.
func TestSoonest(t *testing.T) {
	const ms, delay = time.Millisecond, 300 * time.Millisecond
	ok := func(takes time.Duration) *attempt { return &attempt{takes: takes} }
	fails := func(takes time.Duration, err error) *attempt { return &attempt{takes: takes, err: err} }
	for name, test := range map[string]struct {
		addrs   []netip.AddrPort
		of      map[netip.AddrPort]*attempt
		want    netip.AddrPort
		after   time.Duration
		timeout time.Duration
		errs    []error
	}{
		"one family, in turn": {addrs: []netip.AddrPort{one4, two4}, want: two4, after: 1010 * ms,
			of: map[netip.AddrPort]*attempt{one4: fails(1000*ms, errOne), two4: ok(10 * ms)}},
		"the first in time": {addrs: []netip.AddrPort{one6, one4}, want: one6, after: 299 * ms,
			of: map[netip.AddrPort]*attempt{one6: ok(299 * ms), one4: ok(ms)}},
		"the first hangs": {addrs: []netip.AddrPort{one6, one4}, want: one4, after: 310 * ms,
			of: map[netip.AddrPort]*attempt{one6: ok(0), one4: ok(10 * ms)}},
		"the first is late": {addrs: []netip.AddrPort{one6, one4}, want: one6, after: 305 * ms,
			of: map[netip.AddrPort]*attempt{one6: ok(305 * ms), one4: ok(0)}},
		"the first fails at once": {addrs: []netip.AddrPort{one6, one4, two4}, want: two4, after: 12 * ms,
			of: map[netip.AddrPort]*attempt{one6: fails(ms, errOne), one4: fails(ms, errTwo), two4: ok(10 * ms)}},
		"the other fails, the first comes": {addrs: []netip.AddrPort{one4, one6}, want: one4, after: 500 * ms,
			of: map[netip.AddrPort]*attempt{one4: ok(500 * ms), one6: fails(ms, errOne)}},
		"both fail": {addrs: []netip.AddrPort{one6, one4}, after: 2 * ms, errs: []error{errOne, errTwo},
			of: map[netip.AddrPort]*attempt{one6: fails(ms, errOne), one4: fails(ms, errTwo)}},
		"the context ends": {addrs: []netip.AddrPort{one6, one4}, after: 400 * ms, timeout: 400 * ms, errs: []error{context.DeadlineExceeded},
			of: map[netip.AddrPort]*attempt{one6: ok(0), one4: ok(0)}},
		"the context ends the second": {addrs: []netip.AddrPort{one6, one4}, after: 400 * ms, timeout: 400 * ms, errs: []error{context.DeadlineExceeded},
			of: map[netip.AddrPort]*attempt{one6: fails(ms, errOne), one4: ok(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
					defer cancel()
				}
				start := time.Now()
				got, err := Soonest(ctx, test.addrs, delay, func(ctx context.Context, addr netip.AddrPort) (*attempt, error) {
					return test.of[addr].make(ctx)
				})
				if took := time.Since(start); took != test.after {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				if timeout, ok := err.(interface{ Timeout() bool }); test.timeout > 0 && (!ok || !timeout.Timeout()) {
					t.Errorf("%v is no timeout", err)
				}
				for _, want := range test.errs {
					if !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
				}
				if test.errs == nil && (err != nil || got != test.of[test.want] || got.closed) {
					t.Errorf("%+v, %v", got, err)
				}
				synctest.Wait() // the other family's goroutine is done, or the bubble says so
			})
		})
	}
}

// A connection that comes although another was first is closed.
func TestSoonestClosesLoser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		loser, winner := &attempt{}, &attempt{}
		got, err := Soonest(t.Context(), []netip.AddrPort{one6, one4}, time.Second, func(ctx context.Context, addr netip.AddrPort) (*attempt, error) {
			if addr == one6 {
				<-ctx.Done()
				return loser, nil // as it was about to be cancelled
			}
			return winner, nil
		})
		synctest.Wait()
		if got != winner || err != nil || !loser.closed || winner.closed {
			t.Errorf("%v, closed %v and %v", err, loser.closed, winner.closed)
		}
	})
}
