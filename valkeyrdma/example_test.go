package valkeyrdma_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/goverbs/goverbs/valkeyrdma"

	_ "github.com/goverbs/goverbs/provider/all"
)

// A client without a library sends a command and prints the reply. It needs an RDMA link, so it is compiled but not run
// here.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := valkeyrdma.Dial(ctx, "10.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		log.Fatal(err)
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	fmt.Printf("%q, %v\n", reply, err)
}

// DialContext is the function that clients take: go-redis as Options.Dialer, redigo with DialContextFunc. For rueidis
// and valkey-go, ClientOption.DialCtxFn calls it.
func ExampleDialer_DialContext() {
	d := valkeyrdma.Dialer{Timeout: 5 * time.Second}
	options := struct {
		Addr   string
		Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	}{"10.0.0.1:6379", d.DialContext}
	conn, err := options.Dialer(context.Background(), "tcp", options.Addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(conn.RemoteAddr())
}

// A server that answers every command with OK, for valkey-cli --rdma and for tests.
func ExampleListen() {
	l, err := valkeyrdma.Listen(":6379")
	if err != nil {
		log.Fatal(err)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go func() {
			defer conn.Close()
			// A command of N words has 2N lines behind its first one.
			for lines := bufio.NewReader(conn); ; {
				n := 0
				if _, err := fmt.Fscanf(lines, "*%d\r\n", &n); err != nil {
					return
				}
				for range 2 * n {
					if _, err := lines.ReadString('\n'); err != nil {
						return
					}
				}
				if _, err := io.WriteString(conn, "+OK\r\n"); err != nil {
					return
				}
			}
		}()
	}
}

// A listener whose connections pin less memory than the default of 1.3 MiB, and whose clients move less per round trip.
func ExampleListenConfig() {
	lc := valkeyrdma.ListenConfig{Config: valkeyrdma.Config{SendBuffer: 64 << 10, RecvBuffer: 64 << 10}}
	l, err := lc.Listen(context.Background(), ":6379")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}

// The addresses of a connection are those of its RDMA link.
func ExampleAddr() {
	conn, err := valkeyrdma.Dial(context.Background(), "10.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(conn.RemoteAddr().(valkeyrdma.Addr).AddrPort().Port())
}
