package main

import (
	"log/slog"
	"sync"
	"time"

	"github.com/goverbs/goverbs/internal/metrics"
)

// Limits of the log of failures: each scrape has the same ones, and a hostile kernel may invent new
// ones.
const (
	failureInterval = time.Hour // between two lines about the same failure
	maxFailures     = 256       // failures that are remembered
)

// failureLog logs why scrapes fail, or parts of them: the metrics say only that they do.
type failureLog struct {
	log *slog.Logger

	mu     sync.Mutex
	logged map[failure]time.Time
}

type failure struct{ part, device, cause string }

// add logs a failure, unless it did so within the last hour.
func (l *failureLog) add(part, device string, err error) {
	f := failure{part, metrics.Printable(device), metrics.Printable(err.Error())}
	if !l.remember(f) {
		return
	}
	l.log.Warn("part of a scrape failed", "part", f.part, "device", f.device, "err", f.cause)
}

// remember reports whether the failure is to be logged. If too many are remembered, new ones are not.
func (l *failureLog) remember(f failure) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged == nil {
		l.logged = make(map[failure]time.Time)
	}
	now := time.Now()
	for old, at := range l.logged {
		if now.Sub(at) >= failureInterval {
			delete(l.logged, old)
		}
	}
	if _, known := l.logged[f]; known || len(l.logged) == maxFailures {
		return false
	}
	l.logged[f] = now
	return true
}
