// Package valkeyrdma connects to Valkey over RDMA, as net.Conn and net.Listener. Clients that take a function that
// dials, such as go-redis, rueidis, valkey-go and redigo, run over it unchanged:
//
//	d := valkeyrdma.Dialer{Timeout: 5 * time.Second}
//	client := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379", Dialer: d.DialContext})
//
// The server is valkey-server with RDMA support (--rdma-bind, --rdma-port), or a program of
// this package's Listener, whose clients may be valkey-cli --rdma and valkey-benchmark --rdma. Programs import
// the providers that they need with a blank import, such as github.com/goverbs/goverbs/provider/all.
//
// The shortest whole program asks a server for a reply:
//
//	package main
//
//	import (
//		"bufio"
//		"context"
//		"fmt"
//		"io"
//		"log"
//		"os"
//
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/valkeyrdma"
//	)
//
//	func main() {
//		conn, err := valkeyrdma.Dial(context.Background(), os.Args[1]) // 10.0.0.1:6379
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer conn.Close()
//		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
//			log.Fatal(err)
//		}
//		reply, err := bufio.NewReader(conn).ReadString('\n')
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Print(reply) // +PONG
//	}
//
// # Differences from TCP
//
// Each connection pins its buffers, 1.3 MiB unless [Config] sets other sizes. It has two file descriptors, and no
// goroutine until it is closed. It makes progress only during calls of its methods, and at each keep-alive. A call that
// waits also works for the other calls. Read and Write never wait for each other: a Write goes on while replies wait to be read.
//
// The connection lives in the process. Close returns at once and the data is sent in the background, as over TCP, but
// if the process exits the data is lost. [Conn.Shutdown] waits until the data is sent, and so does Close after
// [Conn.SetLinger] with a positive number.
//
// The protocol cannot end one direction only. io.EOF means that the peer ended the connection in order, also when its
// process was killed. If the peer's machine or the network is gone, the error matches syscall.ECONNRESET.
//
// # Devices
//
// The protocol needs RDMA WRITE with immediate data. The devices of InfiniBand and RoCE have that, and erdma. siw does
// not: Dial and Accept refuse it with an error that matches errors.ErrUnsupported.
//
// # Protocol
//
// The package implements the protocol of Valkey 8 to 9.1, which Valkey calls experimental: it may change in any of
// its versions (https://valkey.io/topics/RDMA). If a peer violates the protocol, the connection ends with an error that
// matches [ErrProtocol]. There is no TLS, and Valkey has neither replication nor a cluster bus over RDMA.
//
// Experimental: may change in any release; see docs/stability.md.
package valkeyrdma

// Implementation
//
// stream is the protocol without a queue pair. Its owner passes in the notices and commands that arrived and the
// counts of sends that completed, and it posts messages to a link. It is a plain value, so a model test runs both ends
// under random schedules. transport is the link of a real connection. Conn adds locks, deadlines and waiting, as
// rsocket's does: of the calls that wait, one has the turn and polls for all.
//
// Each end has one receive buffer. The peer writes to it from the first byte to the last, with a notice of the
// number of bytes behind each piece. When the program has read the last byte, the buffer is offered again. Data
// that does not fit waits for that in Write, so nothing is buffered beyond the two buffers of Config.
//
// The protocol has no flow control of notices, of which each takes a receive. So both ends post 1024 receives, this
// end asks for a short RNR timer, and its own queue pair sends without limit what found no receive, whatever the peer
// asked for: Valkey's server asks for none.
