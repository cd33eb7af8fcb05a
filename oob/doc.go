// Package oob connects RDMA queue pairs without rdma_cm. The two ends exchange their addresses over a stream that
// the program has anyway, such as a TCP or TLS connection, or in messages of any other kind ("out of band").
// It needs only the verbs of a device, so it works where the kernel's connection manager is missing: in sandboxes
// such as gVisor, and on devices that have none.
//
//	conn, err := oob.Dial(ctx, stream, &oob.Config{PD: pd})   // a stream to the peer
//	conn, err := oob.Accept(ctx, stream, &oob.Config{PD: pd}) // at the peer
//
//	l, err := oob.Listen(netListener, &oob.Config{PD: pd})    // for many peers
//	conn, err := l.Accept(ctx)
//
//	half, err := oob.Offer(&oob.Config{PD: pd})               // without a stream
//	conn, answer, err := oob.Answer(ctx, half.Bytes(), cfg)   // at the peer
//	conn, err := half.Connect(answer)
//
// A [Conn] holds a queue pair of type RC, UC, UD or SRD. Programs post work through package uverbs. They import
// the providers that they need with a blank import, such as github.com/goverbs/goverbs/provider/all. iWARP queue
// pairs (siw, and erdma in its iWARP mode) can only be connected by package rdmacm.
//
// The shortest whole program, which sends one message over TCP-exchanged queue pairs:
//
//	package main
//
//	import (
//		"context"
//		"fmt"
//		"log"
//		"net"
//
//		"github.com/goverbs/goverbs/oob"
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/uverbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("mlx5_0")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer dev.Close()
//		pd, err := dev.AllocPD()
//		if err != nil {
//			log.Fatal(err)
//		}
//		stream, err := net.Dial("tcp", "10.0.0.1:7471")
//		if err != nil {
//			log.Fatal(err)
//		}
//		conn, err := oob.Dial(context.Background(), stream, &oob.Config{PD: pd})
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer conn.Close()
//		fmt.Println(conn.QP().Type(), conn.LocalAddr(), conn.RemoteAddr(), conn.MTU())
//	}
//
// # What the ends agree on
//
// The path MTU is the lower one of both ends. Each end issues as many READs and atomics as the other end serves. Both
// GIDs must be of the same type and address family: the accepting end chooses its own accordingly, and the error names
// both if it has none. Packet sequence numbers and Q_Keys are random. Each attempt has a random number, which the
// answer repeats, so an answer to an earlier attempt is refused. When Dial or Accept returns, both ends have posted the
// receives of their Config.Prepare.
//
// # SRD
//
// EFA has no connection manager, and its reliable queue pairs are of type [verbs.QPTypeSRD]. They are not connected:
// each work request names the peer by AH, RemoteQPN and RemoteQKey, for which [Conn.Peer] has the values.
//
//	conn, err := oob.Dial(ctx, stream, &oob.Config{PD: pd, QP: uverbs.QPOptions{Type: verbs.QPTypeSRD}})
//	to := conn.Peer()
//	wr := verbs.SendWR{Opcode: verbs.OpSend, AH: to.AH, RemoteQPN: to.QPN, RemoteQKey: to.QKey, Flags: verbs.SendSignaled, ...}
//
// The target of a READ or WRITE needs an address handle for the other end. Both ends have one when Dial or Accept
// returns, and keep it until Close. A program that has several Conns to a peer may send to it from any SRD queue pair
// of the protection domain.
//
// SRD delivers messages in any order: see [verbs.QPTypeSRD]. A program whose last message tells the peer to close, for
// instance, waits until all sends before it have completed. The stream is another path, too. A bye may overtake
// messages that the peer's device has not completed yet, so the ends agree on the end in messages before one of them
// closes.
//
// # The end
//
// An idle queue pair does not notice that its peer has gone, because there is no connection manager to report it.
// Therefore the stream stays open. When it ends, or the peer says good-bye on it, the queue pair moves to the error
// state, [Conn.Done] is closed, and [Conn.Err] returns an error that matches rdmacm.ErrDisconnected. TCP connections of
// package net notice within a few minutes that the peer's machine has gone.
//
// Connections that were made of an [Offer] and an [Answer] have no stream. A program that learns that the peer has gone
// calls [Conn.Disconnect].
//
// # Security
//
// The endpoints that the ends exchange, and the keys of regions, are all that anybody needs to read and write an
// application's memory. Protect the stream with TLS, check the peer in [Config].Authorize, and give each peer that is
// not trusted a protection domain of its own. TLS does not protect the RDMA traffic itself.
package oob

// Implementation
//
// machine.go has the protocol without its objects: TestModel runs two of them in every order. endpoint.go has the
// format of the messages:
//
//	dialling end   offer  →          queue pair in INIT, receives posted
//	accepting end         ← answer   queue pair in RTS, receives posted
//	dialling end   ready  →          queue pair in RTS
//	either end     bye    →          or a refusal with the reason, at any time before
//
// One goroutine of each Conn reads the stream. What it reads goes to the attempt first, and to Conn.listen once the
// connection is up. The stream is closed when the attempt's context ends, because a stream need not have deadlines.
//
// At the end, the queue pair is closed before the bye is sent. So all received packets have been acknowledged when the
// peer's queue pair moves to the error state.
