// Package rounds measures the user-space cost of posting, polling and arming, for any implementation of
// Rings. A round fills the receive queue of one end and the send queue of the other without a doorbell.
// Then it rings the doorbell, waits until everything has arrived, and polls. The result is the median
// of the rounds, so an interrupt doesn't affect it.
package rounds

const (
	Depth   = 256 // work requests per queue
	Message = 64  // bytes per message
	Calls   = 256 // calls per round of polling an empty CQ and of arming
)

// DC is the driver of a device that is connected to itself by DC.
const DC = "mlx5-dc"

// Kind is the kind of requests of a round.
type Kind int

const (
	Send Kind = iota
	SendInline
	Write
	WriteInline
	Kinds // the number of kinds
)

// measures holds the names of posting in samples.
var measures = [Kinds]string{"post_send", "post_send_inline", "post_write", "post_write_inline"}

// Lists holds the numbers of requests per call.
var Lists = []int{1, 16, 64}

// A Clock returns the time in ticks.
type Clock func() int64

// Rings is the queues of a device that is connected to itself. Each measured method fills or empties a
// whole queue. It reads the clock immediately before and after the loop, as the C twin does. Otherwise
// the code around the loop would be measured too, and the kernel may have evicted it from the caches.
type Rings interface {
	PostRecv(list int, now Clock) (took int64, err error)            // fills the receive queue with list requests per call
	PostSend(kind Kind, list int, now Clock) (took int64, err error) // fills the send queue; leaves out doorbells that are system calls
	// Poll removes send completions with list per call, until a call returns fewer or there were
	// Depth.
	Poll(list int, now Clock) (n int, took int64, err error)
	PollEmpty(now Clock) (took int64, err error) // polls the CQ of sends, which must be empty, Calls times
	Arm(now Clock) (took int64, err error)       // arms the CQ of sends Calls times

	// The following are not measured.
	Doorbell() error                   // rings the doorbell that PostSend left out
	TakeSends(atMost int) (int, error) // removes send completions that have arrived
	TakeRecvs(atMost int) (int, error)
}

// Builder is a Rings that can also write sends one at a time into the queue, and ring for list of them
// at once. It does what PostSend does with requests that were made beforehand.
type Builder interface {
	BuildSend(kind Kind, list int, now Clock) (took int64, err error)
}

// built are the names that this has in samples.
var built = [Kinds]string{"build_send", "build_send_inline", "build_write", "build_write_inline"}

// RecvPoller is a Rings that also measures polling of receives, for frames.
type RecvPoller interface {
	PollRecv(list int, now Clock) (n int, took int64, err error)
}
