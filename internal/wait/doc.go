// Package wait parks goroutines until the kernel reports an event. It serves completion
// channels and asynchronous events.
//
// A [Source], a descriptor, delivers event records. No goroutine reads it in the
// background: one of those that wait has the turn, reads, and delivers each record to the
// [Listener] that it names. A waiter is in one of these states:
//
//	looking     It looks for a reason to return: an event of its own, the end of
//	            its listener, the end of its context. If there is none it takes the
//	            turn, or, if another has that, it is queued.
//	queued      Its goroutine blocks in a select on its reasons and on the turn.
//	holding     It has the turn, it is the only waiter, and its patience is not used
//	            up: its thread blocks in ppoll, for 500 µs at most. Only a record
//	            ends this state early. Everything else is noticed afterwards.
//	parked      It has the turn. Its goroutine is parked in Go's netpoller. A record
//	            ends this, and a kick, which is a read deadline in the past.
//	delivering  It has read a record. If the record is its own, it passes the turn on
//	            and returns. If not, it puts a token on the listener, or tells Get, and
//	            reads on, until it finds a reason to return in between.
//
// A kick makes the reader look around. It comes from a context that is done, from the end
// of a listener, from [Listener.Wake] and from Close. A kick that nobody is there to hear
// stays for the next reader.
//
// A listener's token stands for any number of events. Of several waiters of one listener
// it wakes one, which may leave work behind: when it leaves, it wakes the next. A token
// that the last waiter leaves behind is for [Channel.Get].
package wait
