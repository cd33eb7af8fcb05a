// Package rounds measures what posting, polling and arming cost in user space,
// of any implementation that gives it its rings. A round fills the receive queue
// of one end and the send queue of the other, with the doorbell held back, then
// rings it, waits until everything has arrived, and polls. The result is the
// median of the rounds, so an interrupt does not count.
package rounds

const (
	Depth   = 256 // work requests that a queue holds
	Message = 64  // bytes of each
	Calls   = 256 // of operations measured per call: polling an empty CQ, and arming
)

// Kind is the kind of requests of a round.
type Kind int

const (
	Send Kind = iota
	SendInline
	Write
	WriteInline
	Kinds // how many there are
)

// measures are the names that posting has in samples.
var measures = [Kinds]string{"post_send", "post_send_inline", "post_write", "post_write_inline"}

// Lists are how many requests go into a call.
var Lists = []int{1, 16, 64}

// A Clock measures a step.
type Clock func() int64

// Rings are a device's, connected to itself. Each method that is measured does a
// whole queue's worth, and reads the clock itself, right before and behind it, as
// the C twin does: otherwise the code that leads there is measured too, and has to be fetched
// into caches that the kernel has just used.
type Rings interface {
	PostRecv(list int, now Clock) (took int64, err error)            // fills the receive queue, list requests a call
	PostSend(kind Kind, list int, now Clock) (took int64, err error) // fills the send queue, and leaves out a doorbell that is a system call
	// Poll takes send completions, list a call, until a call returns fewer or
	// Depth have come.
	Poll(list int, now Clock) (n int, took int64, err error)
	PollEmpty(now Clock) (took int64, err error) // polls the CQ of sends Calls times, which must be empty
	Arm(now Clock) (took int64, err error)       // arms the CQ of sends Calls times

	// Not measured:
	Doorbell() error                   // rings what PostSend left out
	TakeSends(atMost int) (int, error) // send completions that are there
	TakeRecvs(atMost int) (int, error)
}

// Builder is a Rings that can also write sends one at a time into the queue, and ring for list of them
// at once. It does what PostSend does with requests that were made beforehand.
type Builder interface {
	BuildSend(kind Kind, list int, now Clock) (took int64, err error)
}

// built are the names that this has in samples.
var built = [Kinds]string{"build_send", "build_send_inline", "build_write", "build_write_inline"}

// RecvPoller is a Rings whose receives are polled like its sends, for frames.
type RecvPoller interface {
	PollRecv(list int, now Clock) (n int, took int64, err error)
}
