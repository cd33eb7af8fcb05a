// Package wait parks goroutines until the kernel reports an event, and lets one waiter work
// for all others. It serves completion channels and asynchronous events of package uverbs,
// and the connections of packages msg and rsocket.
//
// # Turns
//
// A [Turn] implements the leader/followers pattern. Several goroutines wait, each for
// something of its own. One of them holds the turn: it handles events, sleeps until the next
// one, and wakes the others when it has handled theirs. When its own wait is over, it
// releases the turn, and another waiter continues. So no goroutine reads in the background,
// and a lone waiter is not woken by way of another goroutine.
//
// A waiter is in one of these states:
//
//	checking    It looks for a reason to return: a value or an event of its own, the end
//	            of its object, the end of its context. If there is none, it acquires the
//	            turn, or follows if another waiter holds it.
//	following   Its goroutine blocks in a select on its reasons and on the turn.
//	leading     It holds the turn. It works, sleeps, and checks in between.
//
// A change that is not the result of an event has to wake the leader ([Turn.Wake]). A turn may
// also have a background, which leads while there is no waiter ([Turn.StartBackground]).
//
// # Channels
//
// A [Channel] reads event records from a [Source], a descriptor, and delivers each to the
// [Listener] whose number it has. The waiters of all its listeners share a turn. The leader
// sleeps in one of two ways:
//
//	holding     It is the only waiter, and its patience is not used up: its thread blocks
//	            in ppoll, for 500 µs at most. Only a record ends this early. Anything else
//	            is noticed afterwards.
//	parked      Its goroutine is parked in Go's netpoller. A record ends this, and a kick,
//	            which is a read deadline in the past.
//
// A kick is caused by a context that is done, the end of a listener,
// [Listener.Wake] or Close. A kick that meets no reader stays for the next one.
//
// A listener's token stands for any number of events. It wakes one of the listener's
// waiters, which may leave work behind: when it leaves, it wakes the next. If the last
// waiter leaves a token behind, [Channel.Get] receives it.
package wait
