// Package rsocket implements byte streams over RDMA, as net.Conn and net.Listener:
//
//	l, err := rsocket.Listen(ctx, ":7471")
//	conn, err := l.AcceptConn(ctx)
//	conn, err := rsocket.Dial(ctx, "10.0.0.1:7471")
//
// Packages that take a net.Conn, a net.Listener or a function that dials, such as net/http,
// crypto/tls and net/rpc, run over it unchanged. The peer may use librdmacm's rsocket, as rstream
// does, because the wire format is the same. Programs import the providers that they need with a
// blank import, such as github.com/goverbs/goverbs/provider/all.
//
// The shortest whole program is an echo server or, if its argument is the server's address, a client:
//
//	package main
//
//	import (
//		"context"
//		"io"
//		"log"
//		"os"
//
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/rsocket"
//	)
//
//	func main() {
//		ctx := context.Background()
//		if len(os.Args) < 2 {
//			l, err := rsocket.Listen(ctx, ":7471")
//			if err != nil {
//				log.Fatal(err)
//			}
//			conn, err := l.AcceptConn(ctx)
//			if err != nil {
//				log.Fatal(err)
//			}
//			defer conn.Close()
//			if _, err := io.Copy(conn, conn); err != nil {
//				log.Fatal(err)
//			}
//			// The process must live until all data has been sent.
//			if err := conn.Shutdown(ctx); err != nil {
//				log.Fatal(err)
//			}
//			return
//		}
//		conn, err := rsocket.Dial(ctx, os.Args[1]) // 10.0.0.1:7471
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer conn.Close()
//		if _, err := io.WriteString(conn, "hello\n"); err != nil {
//			log.Fatal(err)
//		}
//		if err := conn.CloseWrite(); err != nil {
//			log.Fatal(err)
//		}
//		if _, err := io.Copy(os.Stdout, conn); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// # Differences from TCP
//
// The devices write data directly into the peer's memory, without a copy in a kernel. Each
// connection pins its buffers, 256 KiB unless [Config] sets other sizes. It has one file
// descriptor and about five memory mappings. Linux allows a process 65,530 mappings by
// default (vm.max_map_count). It has no goroutine until it is closed.
//
// The connection lives in the process. Close returns at once and the data is sent in the
// background, as over TCP, but if the process exits the data is lost. [Conn.Shutdown] waits
// until the data is sent, and so does Close if Config.Linger is positive. [Listener.Shutdown]
// waits for what accepted connections still send, for instance after http.Server.Shutdown.
//
// A connection makes progress only during calls of its methods. A call that waits also
// handles the completions of other calls. If the peer's program makes no calls, the peer
// receives only as much data as fits into its receive buffer.
//
// io.EOF means that the peer ended its data in order, with CloseWrite or Close. If the peer
// died or its program closed the device, the error matches syscall.ECONNRESET. A silent peer is probed before
// Config.MaxIdleTimeout has passed.
//
// A dial waits until the other side calls Accept, because no kernel accepts connections
// before that. If neither a deadline nor a cancellation ends it, the kernel does, with an error that
// matches syscall.ETIMEDOUT: over siw after 10 seconds, over erdma after 20, and over InfiniBand
// and RoCE after about a quarter of an hour.
//
// There is no file descriptor for a connection, and no out-of-band data.
//
// # Writing into the peer's memory
//
// A program lets its peer write into its memory with [Conn.Map], if the peer's [Config] has
// room for a mapping. The peer writes with [Conn.WriteAt], without involving the program:
//
//	mapping, err := conn.Map(buffer, 0) // one program
//	n, err := conn.WriteAt(b, 0)        // the other
//
// # Without a connection manager
//
// Where rdma_cm is missing, as in gVisor, two programs of this package connect over a stream that they have anyway,
// such as a TCP or TLS connection: see [Dialer.DialOver] and [ListenConfig.ListenOver]. The stream stays open, and its
// end ends the connection. Such addresses are those of the GIDs, with port 0. Nothing but the device's own calls report
// that the device was removed.
//
//	l, err := new(rsocket.ListenConfig).ListenOver(netListener, &oob.Config{PD: pd})
//	conn, err := new(rsocket.Dialer).DialOver(ctx, stream, &oob.Config{PD: pd})
//
// # Protocol
//
// The package implements version 1 of the protocol: RDMA WRITE with immediate data on
// InfiniBand and RoCE, RDMA WRITE and a SEND of four bytes on iWARP, keep-alives, riomap and
// riowrite, and peers of either byte order. If a peer violates the protocol, the connection
// ends with an error that matches [ErrProtocol]. A peer that does not speak the protocol is
// refused while it connects. The package does not implement datagrams and native InfiniBand
// addresses (AF_IB).
package rsocket

// Implementation
//
// stream is the protocol without a queue pair. Its owner passes in the words that arrived and the
// messages that completed, and it posts messages to a link. It and its parts (window, receiver,
// sendRing, table, ends) are plain values, so a model test runs both ends under random schedules.
// transport is the link of a real connection. Only it knows that iWARP has no immediate data. Conn
// adds locks, deadlines and waiting.
//
// Conn.progress polls both CQs under the Conn's lock, in any call. Of the calls that wait, one has
// the turn: it arms the receive CQ, polls once more and waits in CompChannel.Get. The others wait
// until it wakes them. A call notes Calls.Changes together with the state it saw, and waits only
// while the number stays the same. The send CQ is armed while sends are under way, because in some
// cases only a failed send shows that the connection has ended. Successful sends raise an event only
// while a call waits for room or for delivery (see netconn.Sends), so a program that waits for its
// peer is not woken by its own sends. Most messages of data have no completion of their own (see
// stream.post): one completion stands for a quarter of the send queue or buffer.
//
// Both CQs are the connection's own, because rdmacm.Dial polls the send CQ to prove a connection
// over siw, while the peer's first words may already be on the other one.
//
// The receive queue has spareRecvs more entries than the credits, so a peer that follows the
// protocol never finds it empty. Over iWARP, eight of the peer's credits stay unused, because
// librdmacm's queue has no such spare entries.
