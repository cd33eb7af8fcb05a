package rdmacm

import (
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// ConnStats counts what a connection of package rsocket, msg or valkeyrdma has done, or all connections of a pool. How
// often packets were sent again is counted by devices only: see the hardware counters of package netlinkrdma.
type ConnStats struct {
	// The messages of msg; the completed sends and receives of a byte stream.
	MessagesSent, MessagesReceived uint64
	// MessagesHeld are the messages of msg that the program has received and not released. If the number stays above
	// what the program works on, a Message.Release was forgotten, which stops the peer in the end. Byte streams hold
	// none.
	MessagesHeld uint64
	// Bytes of the program, without headers. Received ones have arrived, even if the program has not received them.
	BytesSent, BytesReceived uint64
	// RoomWaits is how often a call of Send or Write waited until the peer had room, and RoomWait how long all
	// together.
	RoomWaits uint64
	RoomWait  time.Duration
	// Wakeups is how often a goroutine slept until the device reported an event. Connections of a pool count those in
	// the PoolStats.
	Wakeups uint64
	// RegisteredBytes is the memory that is registered now, which is pinned.
	RegisteredBytes uint64
	// Failed counts the completions with an error, by status. It is nil if there are none. Each broken connection has
	// many flushes.
	Failed map[verbs.Status]uint64
}

// Fail counts a completion with an error.
func (s *ConnStats) Fail(status verbs.Status) {
	if s.Failed == nil {
		s.Failed = make(map[verbs.Status]uint64)
	}
	s.Failed[status]++
}

// Add adds the counts of another connection. It does not share o's memory.
func (s *ConnStats) Add(o *ConnStats) {
	s.MessagesSent += o.MessagesSent
	s.MessagesReceived += o.MessagesReceived
	s.MessagesHeld += o.MessagesHeld
	s.BytesSent += o.BytesSent
	s.BytesReceived += o.BytesReceived
	s.RoomWaits += o.RoomWaits
	s.RoomWait += o.RoomWait
	s.Wakeups += o.Wakeups
	s.RegisteredBytes += o.RegisteredBytes
	for status, n := range o.Failed {
		if s.Failed == nil {
			s.Failed = make(map[verbs.Status]uint64)
		}
		s.Failed[status] += n
	}
}
