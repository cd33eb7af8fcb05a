// Package rsocket carries byte streams over RDMA, as net.Conns:
//
//	l, err := rsocket.Listen(":7471")
//	conn, err := l.Accept()
//	conn, err := rsocket.Dial(ctx, "10.0.0.1:7471")
//
// Programs that take a net.Conn, a net.Listener or a function that dials, such as
// net/http, crypto/tls and net/rpc, run over it unchanged. The peer may be a program of
// librdmacm's rsocket, such as rstream: the wire format is the same. The program names
// the drivers it wants with a blank import, such as
// github.com/goverbs/goverbs/provider/all.
//
// The shortest whole program is an echo server and, if it is given the server's address, its client:
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
//		if len(os.Args) < 2 {
//			l, err := rsocket.Listen(":7471")
//			if err != nil {
//				log.Fatal(err)
//			}
//			conn, err := l.Accept()
//			if err != nil {
//				log.Fatal(err)
//			}
//			defer conn.Close()
//			if _, err := io.Copy(conn, conn); err != nil {
//				log.Fatal(err)
//			}
//			// The process must live until all data has been sent.
//			if err := conn.(*rsocket.Conn).Shutdown(context.Background()); err != nil {
//				log.Fatal(err)
//			}
//			return
//		}
//		conn, err := rsocket.Dial(context.Background(), os.Args[1]) // 10.0.0.1:7471
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
// Data is written into the peer's memory by the devices, without a copy in a kernel. Each
// connection pins its buffers, 256 KiB unless [Config] says otherwise, and has two file
// descriptors, but no goroutine until it is closed.
//
// The connection lives in the process. Close returns at once and the data is sent in the
// background, as over TCP, but a process that exits takes it along. [Conn.Shutdown] waits for
// the data, and so does Close after [Conn.SetLinger] with a positive number. A server of
// net/http, for example, sets that in its ConnState hook, for new connections.
//
// A connection makes progress only during calls of its methods. A call that waits does the
// work of the others too. A peer that never calls anything takes what its receive buffer
// has room for, and no more.
//
// io.EOF means that the peer ended its data in order, with CloseWrite or Close. A peer that
// died, or a program that closed its device, is an error that matches
// syscall.ECONNRESET.
//
// A dial waits until the other side calls Accept: no kernel lets peers in beforehand.
//
// There is no file descriptor to get at, and nothing out of band.
//
// # Writing into the peer's memory
//
// A program lets its peer write into its memory with [Conn.Map], if the peer's [Config] has
// room for a mapping. The peer does so with [Conn.WriteAt], and the program does nothing for
// it:
//
//	mapping, err := conn.Map(buffer, 0)          // one program
//	n, err := conn.(*rsocket.Conn).WriteAt(b, 0) // the other
//
// # What is spoken
//
// Version 1 of the protocol: RDMA WRITE with immediate data on InfiniBand and RoCE, RDMA
// WRITE and a SEND of four bytes on iWARP; keep-alives; peers of either byte order. A peer
// that breaks a rule ends the connection with an error that matches [ErrProtocol]; a
// stranger is refused while it connects.
//
// That includes riomap and riowrite. Not spoken: datagrams, and native InfiniBand addresses
// (AF_IB).
package rsocket
