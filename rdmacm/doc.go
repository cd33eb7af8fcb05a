// Package rdmacm connects RDMA queue pairs by IP address, through the kernel's
// /dev/infiniband/rdma_cm and without librdmacm.
//
// Most programs need only the upper half, which looks like package net:
//
//	l, err := rdmacm.Listen(":7471", nil)          // both address families
//	conn, err := l.Accept(ctx)                     // or l.Next(ctx), look, then Accept or Reject
//	conn, err := rdmacm.Dial(ctx, "10.0.0.1:7471", &rdmacm.Config{PrivateData: hello})
//
// A [Conn] carries a connected queue pair with its protection domain and its
// completion queues; work is posted through package uverbs. The program names
// the drivers it wants with a blank import, such as
// github.com/goverbs/goverbs/provider/all.
//
// On iWARP a message that finds no receive posted ends the connection. Post the
// first receives in [Config.Prepare], which runs before the peer may send. Also
// on iWARP the side that dialled has to send first, be it an RDMA WRITE or READ:
// what the other side sends before may break the connection.
//
// Over siw the accepting kernel may overlook a first message that comes too
// soon, until another follows. [Dial] returns when an RDMA READ of nothing has
// proved that the peer listens, which takes a completion queue of the Conn's own
// and at least one READ agreed on; see [Config].
//
// A connection ends with the first cause that shows: [Conn.Done], [Conn.Err]. After
// an orderly end Err is [ErrDisconnected]. A wait on a CQ of the Conn's own returns
// what is flushed, and then an error that matches Err.
//
// Over InfiniBand and RoCE a side that closes as soon as it has received may do so
// before its acknowledgement is out; the peer's send is then flushed although it
// has arrived. Let the side that sends last also disconnect.
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
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/rdmacm"
//	)
//
//	func main() {
//		conn, err := rdmacm.Dial(context.Background(), "10.0.0.1:7471", nil)
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer conn.Close()
//		fmt.Println(conn.QP().Type(), conn.LocalAddr(), conn.RemoteAddr())
//	}
//
// # Datagrams and multicast
//
// With [Config.QP]'s Type UD, Dial looks up a datagram service (in librdmacm: port
// space UDP) and returns a Conn with a [Conn.Peer] to send to; a Listener answers
// lookups, with a queue pair for each with [Request.Accept], or with one for all of
// them with [Request.AcceptOn]. [OpenUD] makes a datagram Conn without
// a peer, [Conn.Lookup] finds more peers for one, and [Conn.JoinMulticast] takes
// it into multicast groups. None of this connects anything: nobody hears of a
// peer's end, messages of at most the path MTU may be lost, and each receive
// needs 40 bytes more than the message has, for the header in front. iWARP has no
// datagrams.
//
// There is no SetDeadline: whatever waits takes a context, and posted work is
// bounded by the queue pair's own retry counters and by closing the Conn.
//
// The lower half follows librdmacm call by call: [EventChannel], [ID] and
// [Event], each with its C twin named.
//
// # Threads and network namespaces
//
// The kernel gives an ID the network namespace of the thread that creates it.
// A goroutine runs in the process's namespace unless the caller locked it to a
// thread that was moved; such a caller may call [Dial], [Listen] and
// [EventChannel.NewID] from that locked goroutine and gets that namespace,
// because all three create their IDs on the calling goroutine.
//
// # Credentials
//
// The kernel refuses commands on a channel from a thread whose credentials are
// not the very ones it was opened with (EACCES). After syscall.Setuid and its
// like each thread has credentials of its own, equal but not the same; so change
// the user before the program starts, or have it start itself again.
package rdmacm
