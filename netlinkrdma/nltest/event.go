package nltest

import (
	"context"
	"os"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/netlinkrdma"
)

var _ netlinkrdma.Subscriber = (*Kernel)(nil)

// subscription keeps a bounded number of events, as a socket does.
type subscription struct {
	messages chan []byte
	lost     chan struct{}
	closed   chan struct{}
	once     sync.Once
}

const eventsKept = 16

// Subscribe adds a subscriber, which receives the events of [Kernel.Notify] and of links that are
// added, renamed and deleted.
func (k *Kernel) Subscribe() (netlinkrdma.Subscription, error) {
	s := &subscription{messages: make(chan []byte, eventsKept), lost: make(chan struct{}, 1), closed: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.subscriptions = append(k.subscriptions, s)
	return s, nil
}

// Notify sends an event to all subscribers. A subscriber that does not read loses all but
// 16 events.
func (k *Kernel) Notify(e netlinkrdma.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notify(e)
}

// notify is Notify under the lock.
func (k *Kernel) notify(e netlinkrdma.Event) {
	for _, s := range k.subscriptions {
		select {
		case s.messages <- EncodeEvent(e):
		default:
			select {
			case s.lost <- struct{}{}:
			default:
			}
		}
	}
}

func (s *subscription) Receive(ctx context.Context) ([]byte, error) {
	select {
	case <-s.lost:
		return nil, syscall.ENOBUFS
	default:
	}
	select {
	case <-s.closed:
		return nil, os.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	case m := <-s.messages:
		return m, nil
	}
}

func (s *subscription) Close() error {
	err := os.ErrClosed
	s.once.Do(func() { close(s.closed); err = nil })
	return err
}
