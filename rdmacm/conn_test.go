package rdmacm

import (
	"errors"
	"testing"
)

// The outcome of a step counts more than the end that came right behind it.
func TestOutcomeBeforeEnd(t *testing.T) {
	rejected := &RejectedError{Reason: RejectConsumer}
	for range 200 { // a select takes either
		c := newConn(nil)
		c.event(&Event{Type: EventRejected, Err: rejected})
		c.broken(errors.New("no more events"))
		if _, err := c.await(t.Context(), EventEstablished); err != rejected {
			t.Fatal(err)
		}
	}
}
