// Package valkeyrdma implements net.Conn and net.Listener for Valkey over RDMA. Clients with an option for a dial
// function, such as go-redis, rueidis, valkey-go and redigo, run over it unchanged:
//
//	d := valkeyrdma.Dialer{Timeout: 5 * time.Second}
//	client := redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379", Dialer: d.DialContext})
//
// The server is valkey-server with RDMA support (--rdma-bind, --rdma-port), or a program that uses Listener. Clients of
// such a program may also be valkey-cli --rdma and valkey-benchmark --rdma. Programs link the providers that they need
// with a blank import, such as github.com/goverbs/goverbs/provider/all.
//
// The shortest whole program sends a PING and prints the reply:
//
//	package main
//
//	import (
//		"bufio"
//		"context"
//		"fmt"
//		"io"
//		"log"
//
//		_ "github.com/goverbs/goverbs/provider/all"
//		"github.com/goverbs/goverbs/valkeyrdma"
//	)
//
//	func main() {
//		conn, err := valkeyrdma.Dial(context.Background(), "10.0.0.1:6379")
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
// Each connection pins its buffers. That is 1,060 KiB for one that is idle, and 1.3 MiB for one that has sent more
// than 64 bytes at once, unless [Config] sets other sizes. It has two file descriptors, and
// no goroutine until it is closed. It makes progress only during calls of its methods, and at each keep-alive. A call
// that waits also works for the other calls. Read and Write never wait for each other, so a Write makes progress while
// replies are unread.
//
// The connection belongs to the process, not to the kernel. Close returns at once and the data is sent in the
// background, as over TCP, but if the process exits, the data is lost. [Conn.Shutdown] waits until the data is sent,
// and so does Close after [Conn.SetLinger] with a positive time.
//
// The protocol cannot end only one direction. io.EOF means that the peer has closed the connection, or that its process
// has ended. If the peer's machine or the network is gone, the error matches syscall.ECONNRESET.
//
// # Devices
//
// The protocol needs RDMA WRITE with immediate data. InfiniBand, RoCE and erdma devices support it. siw doesn't: Dial
// and Accept return an error that matches errors.ErrUnsupported.
//
// # Protocol
//
// The package implements the protocol of Valkey 8 to 9.1. Valkey calls it experimental, so it may change in any
// version (https://valkey.io/topics/RDMA). If a peer violates the protocol, the connection ends with an error that
// matches [ErrProtocol]. There is no TLS, and Valkey has neither replication nor a cluster bus over RDMA.
//
// Experimental: may change in any release; see docs/stability.md.
package valkeyrdma

// Implementation
//
// stream implements the protocol without a queue pair. Its owner passes in the notices and commands that have arrived
// and the number of completed sends. stream posts messages to a link. It is a plain value, so a model test can run both
// ends under random schedules. transport is the link of a real connection. Conn adds locks, deadlines and waiting, as
// in rsocket: one of the waiting calls has the turn and polls for all of them.
//
// Each end has one receive buffer. The peer writes to it from the first byte to the last. After each piece it sends a
// notice with the number of bytes. When the program has read the last byte, this end offers the buffer again. Until
// then, Write waits with data that doesn't fit, so nothing is buffered beyond the two buffers of Config.
//
// The protocol has no flow control for notices, each of which consumes a receive. Therefore both ends post 1024
// receives, and this end sets a short RNR timer. Its own queue pair repeats sends that found no receive without limit,
// although Valkey's server sets the retry count to zero.
