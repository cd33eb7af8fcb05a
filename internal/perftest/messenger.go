package perftest

import "context"

// MaxMessage is in bytes the longest message over a QP, and how long the
// receive must be that is posted for one.
const MaxMessage = markedSize

// Messenger carries the messages of a session with -R: each is one SEND on an
// RC queue pair of its own, which rdma_cm connected before those of the test.
// The ends send in turn, so one receive is enough; it must be posted before
// the connection is asked for or accepted, and the next one before Receive
// returns, because the peer may answer at once.
type Messenger interface {
	// Send returns when the SEND has completed, or the peer has disconnected. Receive then
	// returns the error.
	Send(ctx context.Context, message []byte) error
	// Receive waits for a message, copies it to the front of buf, which has
	// MaxMessage bytes, and returns its length.
	Receive(ctx context.Context, buf []byte) (int, error)
}

// channel carries messages whose length both ends know: a stream or packets.
type channel interface {
	send(ctx context.Context, message []byte) error
	receive(ctx context.Context, message []byte) error
	// last sends the last message of an end.
	last(ctx context.Context)
	endpoint(e Endpoint) []byte
	parse(b []byte) (Endpoint, error)
	// forPeer returns the channel to a peer of this version.
	forPeer(version string) channel
}
