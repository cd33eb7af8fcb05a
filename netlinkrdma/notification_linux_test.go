package netlinkrdma

import (
	"errors"
	"testing"
)

// A datagram of notifications that is damaged is told, once, and nothing of it.
func TestReceiveMalformed(t *testing.T) {
	n := quiet(t)
	n.left = []byte("abc")
	if body, err := n.Receive(t.Context()); body != nil || !errors.Is(err, ErrMalformed) {
		t.Errorf("%q, %v", body, err)
	}
	if len(n.left) > 0 {
		t.Errorf("%q is left", n.left)
	}
}
