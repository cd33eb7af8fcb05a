// Package msg carries messages over RDMA connections, with one-sided operations beside them.
//
//	l, err := msg.Listen(":7471")
//	c, err := l.Accept(ctx)
//	c, err := msg.Dial(ctx, "10.0.0.1:7471")
//
//	err = c.Send(ctx, []byte("question"))
//	m, err := c.Recv(ctx)
//	fmt.Printf("%s\n", m.Bytes())
//	m.Release()
//
// It does what a program on package uverbs would have to do by itself: it registers buffers
// once, posts receives again, counts credits so that no sender outruns its receiver, tells
// completions apart, and finds out how a connection ends. Messages keep their boundaries and
// their order. One that is too long for a receive buffer is read by the receiver from the
// sender's memory. Either side may send first, also over iWARP. docs/messages.md has the
// protocol.
//
// The shortest whole program:
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
//   - [Conn.Send] copies. The slice is the caller's again when it returns.
//   - [Conn.Alloc] lends a [Buffer] of registered memory to the program, and
//     [Conn.SendBuffer] takes it back, without a copy.
//   - [Conn.Recv] lends the [Message] in the memory that the device put it into.
//     [Message.Release] gives it back, and grants the peer another message. A program that
//     keeps half of [Config]'s Window or more stops its peer.
//   - A [Region] is the program's memory. While an operation uses it, it can't be closed.
//
// The memory is that of Go's collector. A slice that outlives its connection is no danger.
//
// # Cancelling
//
// Every call that may wait takes a context. A Send that its context ends has sent nothing, and a
// Recv has taken nothing, so both may simply be called again. No device takes back a
// work request. A [Conn.Read] that its context ends may therefore still write to its
// [Span], until [Region.Close] succeeds. Its completion wakes no later call.
//
// # The end
//
// [Conn.Close] returns at once. The peer receives what was sent before, and then io.EOF; the
// background sees to that, for 10 seconds at most. [Conn.Shutdown] waits for it, and
// [Conn.SetLinger] changes what Close does. Any other end, such as the death of the peer, shows
// as an [Error] behind the messages that came before it.
//
// A connection that is idle asks its peer for a sign of life every 15 seconds
// ([Config].KeepAlive). So a program that only receives notices too that its peer's machine or the
// network has gone: about 7 seconds later over InfiniBand and RoCE, and when TCP gives up over
// iWARP, which takes Linux a quarter of an hour.
//
// # Many connections
//
// A connection has everything to itself unless its Config names a [Pool]. Connections of
// a pool share a protection domain, completion queues, and a goroutine that takes completions
// while no call waits.
package msg
