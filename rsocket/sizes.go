package rsocket

import (
	"syscall"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Sizes are what a connection has of its own. A field that is 0 stands for the default
// of librdmacm. The two ends may differ.
type Sizes struct {
	// SendBuffer and RecvBuffer are in bytes. Write returns when all is in the send
	// buffer or sent; the peer may send as much as the receive buffer holds before it
	// is read. 0: 128 KiB. Less than 4096 is refused, and so is an odd RecvBuffer.
	SendBuffer, RecvBuffer int
	// SendQueue and RecvQueue are how many messages of data may be under way or wait
	// to be read: a Write is one message, or one for each 64 KiB. 0: 384. Less than 16
	// is refused, and so is more than 65534.
	SendQueue, RecvQueue int
	// Mappings is how much memory at a time the peer may have this end write to with
	// WriteAt, in calls of its Map or riomap. 0: none. More than 128 is refused.
	Mappings int
}

const (
	defaultBuffer = 128 << 10
	defaultQueue  = 384
	leastBuffer   = 4096
	leastQueue    = 16
	mostQueue     = 65534
	mostBuffer    = 1 << 30
	mostMappings  = 128 // more are told in units of 256
	inlineData    = 64
)

func (z *Sizes) withDefaults() (Sizes, error) {
	s := *z
	for _, p := range []*int{&s.SendBuffer, &s.RecvBuffer} {
		if *p == 0 {
			*p = defaultBuffer
		}
		if *p < leastBuffer || *p > mostBuffer {
			return s, syscall.EINVAL
		}
	}
	for _, p := range []*int{&s.SendQueue, &s.RecvQueue} {
		if *p == 0 {
			*p = defaultQueue
		}
		if *p < leastQueue || *p > mostQueue {
			return s, syscall.EINVAL
		}
	}
	if s.RecvBuffer%2 != 0 || s.Mappings < 0 || s.Mappings > mostMappings {
		return s, syscall.EINVAL
	}
	return s, nil
}

// retryCount is how often an unacknowledged packet is sent again. rxe takes 7, librdmacm's
// choice, for without end: a network that is gone would end no connection.
const retryCount = 6

// ackTimeout is 4.096 µs times 2^18, a second. With retryCount a network may be gone for seven.
const ackTimeout = 18

// config describes the queue pair.
func (z *Sizes) config() rdmacm.Config {
	return rdmacm.Config{RetryCount: retryCount, AckTimeout: ackTimeout, QP: uverbs.QPOptions{Cap: verbs.QPCap{
		MaxSendWR: uint32(z.SendQueue + spareSlots), MaxSendSGE: 2, MaxInline: inlineData,
		MaxRecvWR: uint32(z.RecvQueue + spareRecvs), MaxRecvSGE: 1}}}
}
