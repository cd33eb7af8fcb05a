package dialer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A dial is repeated as the error allows, in a nested call not at all.
func TestRetry(t *testing.T) {
	busy := errors.New("busy")
	for name, test := range map[string]struct {
		patience Patience
		timeout  time.Duration
		succeeds int           // which dial does
		hangs    int           // which dial does
		waits    time.Duration // that the first dial does
		dials    int           // 0: more than 10
		within   time.Duration
		ended    bool
	}{
		"never":                 {patience: Never, dials: 1},
		"briefly":               {patience: Briefly, dials: mostBriefly, within: time.Second},
		"a success":             {patience: Briefly, succeeds: 3, dials: 3, within: time.Second},
		"patiently":             {patience: Patiently, within: mostPatiently + 2*longestPause},
		"late":                  {patience: Patiently, waits: time.Minute, within: time.Minute + mostPatiently + 2*longestPause},
		"until the deadline":    {patience: Patiently, timeout: time.Minute, within: time.Minute, ended: true},
		"an early deadline":     {patience: Briefly, timeout: time.Millisecond, dials: 1, within: time.Millisecond, ended: true},
		"a success in patience": {patience: Patiently, succeeds: 15, dials: 15, within: time.Minute},
		"an end in a dial":      {patience: Patiently, timeout: time.Minute, hangs: 7, dials: 7, within: time.Minute, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
					defer cancel()
				}
				start, dials := time.Now(), 0
				patience := func(error) Patience { return test.patience }
				got, err := Retry(ctx, patience, func(ctx context.Context) (int, error) {
					return Retry(ctx, patience, func(ctx context.Context) (int, error) {
						if dials++; dials == 1 {
							time.Sleep(test.waits)
						}
						switch dials {
						case test.succeeds:
							return 7, nil
						case test.hangs:
							<-ctx.Done()
							return 0, ctx.Err()
						}
						return 0, busy
					})
				})
				if success := test.succeeds > 0; success != (err == nil && got == 7) || success == errors.Is(err, busy) || test.ended != errors.Is(err, context.DeadlineExceeded) {
					t.Error(got, err)
				}
				if test.dials == 0 && dials < 10 || test.dials > 0 && dials != test.dials {
					t.Error(dials, "dials")
				}
				if took := time.Since(start); took > test.within || dials > 1 && took == 0 {
					t.Error("took", took)
				}
			})
		})
	}
}
