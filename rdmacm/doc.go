// Package rdmacm connects RDMA queue pairs by IP address. It uses the kernel's
// /dev/infiniband/rdma_cm directly and does not need librdmacm.
//
// Most programs need only the upper half, which resembles package net:
//
//	l, err := rdmacm.Listen(ctx, ":7471")            // both address families
//	conn, err := l.Accept(ctx)                     // or l.Next(ctx), to accept or reject a request
//	conn, err := rdmacm.Dial(ctx, "10.0.0.1:7471") // or the Dial method of a Dialer with options
//
// A [Conn] holds a connected queue pair with its protection domain and its completion
// queues. Programs post work through package uverbs. They import the providers that they
// need with a blank import, such as github.com/goverbs/goverbs/provider/all.
//
// On iWARP, a message that finds no posted receive ends the connection. Post the first
// receives in [Config].Prepare, which is called before the peer may send. Also on iWARP,
// the side that dialled has to send first; an RDMA WRITE or READ counts. Whatever the
// other side sends before that may break the connection.
//
// Over siw, the accepting kernel may overlook a first message that arrives too early until
// another one follows. [Dial] therefore proves with an empty RDMA READ that the peer's kernel
// listens. For this, the Conn must have its own send CQ, and both sides must allow at least one
// READ; see [Config].
//
// A connection ends with the first cause that occurs, which [Conn.Err] returns once
// [Conn.Done] is closed. After an orderly end the cause is [ErrDisconnected]. A wait on one
// of the Conn's own CQs returns the flushed work requests, and then an error that matches
// Err.
//
// Over InfiniBand and RoCE, a side that closes as soon as it has received a message may close
// before it has sent the acknowledgement. The peer's send is then flushed although the message
// has arrived. Therefore the side that sends last should also be the one that disconnects.
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
//		conn, err := rdmacm.Dial(context.Background(), "10.0.0.1:7471")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer conn.Close()
//		fmt.Println(conn.QP().Type(), conn.LocalAddr(), conn.RemoteAddr())
//	}
//
// # Datagrams and multicast
//
// With a [Config].QP of Type UD, Dial looks up a datagram service (librdmacm's port space UDP)
// and returns a Conn whose [Conn.Peer] is the destination. A Listener answers such lookups,
// either with a queue pair for each ([Request.Accept]) or with one queue pair for all
// ([Request.AcceptOn]). [OpenUD] returns a datagram Conn without a peer, [Conn.Lookup] finds
// peers for it, and [Conn.JoinMulticast] adds it to multicast groups.
//
// Datagrams need no connection, so nothing reports that a peer has gone. Messages have at most
// the size of the path MTU and may be lost. Each receive needs 40 bytes more than the message,
// for the header in front of it. iWARP has no datagrams.
//
// # Time
//
// There is no SetDeadline. Every call that waits takes a context. An error that a context
// caused is a [verbs.Error] that matches ctx.Err(), and a timeout if the deadline has passed.
// Posted work is bounded by the queue pair's own retry counters, and by Close.
//
// # The lower half
//
// The lower half follows librdmacm call by call: [EventChannel], [ID] and [Event]. Each
// comment names the C function.
//
// # Threads and network namespaces
//
// The kernel puts an ID into the network namespace of the thread that creates it. A goroutine
// runs in the process's namespace unless the caller has locked it to a thread and moved that
// thread. [Dial], [Listen] and [EventChannel.NewID] create their IDs on the calling goroutine,
// so a locked goroutine gets the namespace of its thread.
//
// # Credentials
//
// The kernel refuses commands on a channel (EACCES) from a thread whose credentials are not
// the very object that the channel was opened with. After syscall.Setuid and the like, each
// thread has credentials of its own, which are equal but not the same object. Change the user
// before the program starts, or let the program execute itself again.
package rdmacm

// Implementation
//
// The two levels are one package, because the upper one uses many parts of the lower one that
// programs must not use. For instance, a program must not take events from a hub. The lower level
// is in id*.go, channel.go, event.go, multicast.go (but for Group), path.go, service.go and
// command_unsafe.go.
//
// A hub is an event channel with a goroutine that delivers its events. All dialled Conns share one
// hub. A Listener shares its hub with the Conns that it accepted, which may outlive it. An event
// that moves a queue pair runs on a goroutine of its own, so a device that is slow with one
// connection does not stall others. The events of one ID keep their order.
//
// Listener.Accept runs each handshake on a goroutine of its own. Requests can be forged over RoCE.
// Therefore peers that do not confirm are dropped after a time, sooner if other peers wait, and no
// address has more than a share of the handshakes.
//
// The first cause ends a Conn: an event, a completion with an error (hooks.OnError), or a call of
// the program. The cause is stored before the queue pair moves to ERR, so a program that polls a
// flushed work request finds it in Conn.Err. Conn.Done is closed after the move. The waits on the
// Conn's own CQs end by hooks.End: they return what is still flushed, and then the cause.
//
// The kernel lets one ID do one thing only. A datagram Conn needs another ID to look up a peer or to
// join a group, so Conn.sibling creates a second Conn on the same hub.
//
// A process opens each device once, and counts its users. An event for an ID that is gone is
// dropped. siw has two faults that this package works around: the accepting side can overlook a
// message while it takes over the socket (conn_prove.go), and a signal during CONNECT ends the
// connection (interrupt_linux.go).
