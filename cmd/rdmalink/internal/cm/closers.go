package cm

import (
	"errors"
	"io"
)

// closers are objects that go in the opposite order of their making.
type closers []io.Closer

func (c *closers) add(one io.Closer) { *c = append(*c, one) }

func (c *closers) close() (err error) {
	for i := len(*c) - 1; i >= 0; i-- {
		err = errors.Join(err, (*c)[i].Close())
	}
	*c = nil
	return err
}
