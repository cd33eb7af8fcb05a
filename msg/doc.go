// Package msg sends messages over RDMA connections. It also has one-sided operations.
//
//	l, err := msg.Listen(ctx, ":7471")
//	c, err := l.Accept(ctx)
//	c, err := msg.Dial(ctx, "10.0.0.1:7471")
//
//	err = c.Send(ctx, []byte("question"))
//	m, err := c.Recv(ctx)
//	fmt.Printf("%s\n", m.Bytes())
//	m.Release()
//
// The package does what every program on package uverbs has to do: it registers buffers
// once, posts receives again, counts credits so that no sender outruns its receiver, matches
// completions with work requests, and finds out how a connection ends. Messages keep their
// boundaries and their order. A message that is too long for a receive buffer is read by the
// receiver from the sender's memory. Either side may send first, also over iWARP.
// docs/messages.md describes the protocol.
//
// The shortest complete program:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//
//		"github.com/goverbs/goverbs/msg"
//		_ "github.com/goverbs/goverbs/provider/all"
//	)
//
//	func main() {
//		ctx := context.Background()
//		c, err := msg.Dial(ctx, "10.0.0.1:7471")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer c.Close()
//		if err := c.Send(ctx, []byte("question")); err != nil {
//			log.Fatal(err)
//		}
//		m, err := c.Recv(ctx)
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Printf("%s\n", m.Bytes())
//		m.Release()
//	}
//
// # Ownership
//
// A buffer belongs to one side at a time:
//
//   - [Conn.Send] copies. When it returns, the caller may use the slice again.
//   - [Conn.Alloc] lends a [Buffer] of registered memory to the program, and
//     [Conn.SendBuffer] takes it back, without a copy.
//   - [Conn.Recv] lends the [Message] in the memory that the device has written it to.
//     [Message.Release] returns it, and grants the peer another message. A program that
//     keeps half of [Config]'s Window or more stops its peer.
//   - A [Region] is the program's memory. It can't be closed while an operation uses it.
//
// The memory is allocated by Go and garbage collected, so a slice may safely outlive its
// connection.
//
// # Cancelling
//
// Every call that may wait takes a context. If the context ends first, the error matches
// ctx.Err(). Send has then sent nothing and Recv has received nothing, so both may simply be
// called again. Devices can't cancel a work request. So a canceled [Conn.Read] may still
// write to its [Span], until [Region.Close] succeeds. Its late completion does not affect
// later calls.
//
// # The end
//
// [Conn.Close] returns at once. The peer receives all messages that were sent, and then
// io.EOF. The connection delivers them in the background, for at most 10 seconds.
// [Conn.Shutdown] waits for that, and [Conn.SetLinger] changes it. If a connection ends in
// any other way, for example because the peer died, calls return a [verbs.Error]. Before that,
// Recv returns the messages that have arrived.
//
// An idle connection probes its peer. So even a program that only receives detects that the
// peer's machine or the network is down: within 40 seconds, or as [Config].MaxIdleTimeout says.
//
// # Many connections
//
// A connection has its own resources unless its Config names a [Pool]. The connections of a
// pool share a protection domain, completion queues, and a goroutine that handles completions
// while no call waits.
package msg

// # Implementation
//
// A Conn is a state machine under one lock. Completions enter it by complete, and calls by
// trySend, tryRecv and start. None of them waits with the lock held. It posts to a link, which
// is an rdmacm.Conn, or a fake one in tests. TestModel runs whole connections on fakes, step
// by step.
//
// One goroutine at a time holds the turn to send, and one the turn to receive. Only the
// holder waits for credit or for a message. So each turn needs one channel with room for one
// token, and a wait allocates nothing. flush posts the frames that do not depend on the
// program (CREDIT, FIN, CLOSE). It runs after every completion and every release.
//
// Completions come from the poller of the connection, or of its pool. The call that waits
// holds the poller's turn (see package internal/wait): it polls, arms, and sleeps in
// CompChannel.Get for all calls that wait. So in a busy program, no call is woken through
// another goroutine. While no call waits, the background holds the turn, 20 ms after the last
// call at the earliest, because setting a timer for each message would cost more than the
// message. The send CQ is armed only while a call, a control frame or a READ waits for it
// (Conn.want). One of four DATA frames is signaled. A change that no completion makes, such
// as Close or a freed buffer, wakes the sleeping call through hooks.Wake.
//
// The WRID of a work request holds the number of the connection, a kind, a slot, and how often
// the slot was used. A pool never reuses the number of a connection, whereas the kernel reuses
// the numbers of queue pairs. So the completion of a canceled call frees the slot and wakes no
// call.
//
// The end of a connection is noticed by completions: receives are always posted, and are
// flushed when the queue pair fails. The poller of a single connection also checks its Done.
// The connection is over when as many work requests have completed as were posted. This is
// why a pool has no SRQ: its receives are not flushed, so an idle connection would not notice
// its end.
//
// An announcement allocates no memory. A large message is read into buffers that grow as it
// arrives (fetch), after its whole length has been reserved from a budget. The large buffers
// are the only ones that the peer may read. Each connection keeps its own, so with an old key
// a peer can read only its own messages. Buffers are Go slices, registered once and pinned.
// So messages that are lent stay readable after Close. If the memory were unmapped, reading
// it would kill the process.
