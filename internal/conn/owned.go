package conn

import (
	"errors"
	"io"
	"net"
	"slices"

	"github.com/goverbs/goverbs/verbs"
)

// Owned holds the objects that a connection has to free, in the order of their creation.
type Owned []io.Closer

// Add adds the newest object.
func (o *Owned) Add(c io.Closer) { *o = append(*o, c) }

// Freeing makes an io.Closer of a function.
type Freeing func() error

// Close implements io.Closer.
func (f Freeing) Close() error { return f() }

// Free closes all objects, last first, and keeps those that failed for the next call. It stops at
// an object that is in use, because then all older ones are in use too. Other errors do not stop
// it, so it frees all that do not depend on the failed one.
func (o *Owned) Free() error {
	var errs []error
	for i, c := range slices.Backward(*o) {
		err := c.Close()
		if err == nil || errors.Is(err, net.ErrClosed) {
			*o = slices.Delete(*o, i, i+1)
			continue
		}
		errs = append(errs, err)
		if errors.Is(err, verbs.ErrInUse) {
			break
		}
	}
	return errors.Join(errs...)
}
