package oob

import (
	"errors"
	"sync"
	"time"

	"github.com/goverbs/goverbs/uverbs"
)

const (
	defaultAckTimeout = 67 * time.Millisecond
	longestRetry      = time.Minute
	mostAttempts      = 16
	mostRecent        = 1024
)

// recent holds the numbers of queue pairs that have ended without the peer's good-bye, or before it. The peer may still
// send to such a number. A device may give it to the next queue pair, so it is not used while the peer's retries last.
var recent = recentQPNs{until: make(map[recentQPN]time.Time)}

type recentQPN struct {
	device string
	qpn    uint32
}

type recentQPNs struct {
	mu    sync.Mutex
	until map[recentQPN]time.Time
}

func (r *recentQPNs) add(device string, qpn uint32, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for q, until := range r.until {
		if now.After(until) || len(r.until) >= mostRecent {
			delete(r.until, q)
		}
	}
	r.until[recentQPN{device, qpn}] = now.Add(d)
}

func (r *recentQPNs) remove(device string, qpn uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.until, recentQPN{device, qpn})
}

func (r *recentQPNs) has(qp *uverbs.QP) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[recentQPN{qp.Device().Info().Name, qp.QPN()}])
}

// create creates a queue pair with another number. It holds those with a recent one until it has found another. If the
// device has only recent ones, the random packet sequence number and Q_Key must do.
func (r *recentQPNs) create(pd *uverbs.PD, opts *uverbs.QPOptions) (*uverbs.QP, error) {
	var held []*uverbs.QP
	for {
		qp, err := pd.CreateQP(opts)
		if err == nil && r.has(qp) && len(held) < mostAttempts {
			held = append(held, qp)
			continue
		}
		if n := len(held); err != nil && n > 0 { // there is no room for more
			qp, held, err = held[n-1], held[:n-1], nil
		}
		for _, other := range held {
			err = errors.Join(err, other.Close())
		}
		if err != nil && qp != nil {
			err = errors.Join(err, qp.Close())
		}
		return qp, err
	}
}
