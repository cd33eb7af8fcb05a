package transfer

import (
	"errors"
	"net"

	"github.com/goverbs/goverbs/verbs"
)

var (
	// ErrStale means that the program behind a descriptor or a [Peer] is not the one that runs there now: it has been
	// restarted, or the descriptor is another peer's. Open the peer again and get a new descriptor.
	ErrStale = errors.New("the peer was restarted, or the descriptor is another peer's")
	// ErrOutOfBounds means that an operation exceeds its region, or the rights of it.
	ErrOutOfBounds = errors.New("out of bounds")
	// ErrProtocol means that a peer, or a descriptor, broke the protocol.
	ErrProtocol = errors.New("not of the transfer protocol")
	// ErrUnknown means that a notification may have arrived, or may not.
	ErrUnknown = errors.New("it is unknown whether the notification has arrived")
)

// errEnded is the error of work requests that have not completed before the end of their connection.
var errEnded = errors.New("the connection has ended")

// failed returns the error of an operation, or nil.
func failed(op, object, device string, err error) error {
	if err == nil {
		return nil
	}
	return &verbs.Error{Op: op, Object: object, Device: device, Err: err}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// blamesOperation reports whether an operation failed because of its own parameters. Any other error is the rail's, and
// the operation goes again on another rail.
func blamesOperation(err error) bool {
	for _, s := range []verbs.Status{verbs.StatusLocLenErr, verbs.StatusLocQPOpErr, verbs.StatusLocProtErr, verbs.StatusLocAccessErr,
		verbs.StatusRemInvReqErr, verbs.StatusRemAccessErr, verbs.StatusRemOpErr} {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}
