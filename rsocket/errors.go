package rsocket

import (
	"errors"
	"fmt"
)

// ErrProtocol is the error of a connection whose peer violated the rsocket protocol or does not speak it.
var ErrProtocol = errors.New("the peer broke the rsocket protocol")

// ErrNotMapped is the error of a WriteAt to an offset where the peer has mapped no memory.
var ErrNotMapped = errors.New("the peer has mapped no memory there")

// violation returns an error that names the rule that the peer violated.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}
