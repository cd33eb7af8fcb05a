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

// This client sends a command without a library and prints the reply. It needs an RDMA link, so it is compiled but not
// run here.
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

// DialContext has the signature that clients expect. It can be go-redis' Options.Dialer, or the argument of redigo's
// DialContextFunc. For rueidis and valkey-go, ClientOption.DialCtxFn calls it.
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

// This server answers every command with OK. Clients such as valkey-cli --rdma can connect to it.
func ExampleListen() {
	l, err := valkeyrdma.Listen(context.Background(), ":6379")
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
			// After the first line, a command of N words has 2N lines.
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

// The connections of this listener pin less memory than the default of 1.3 MiB, and receive less per round trip.
func ExampleListenConfig() {
	lc := valkeyrdma.ListenConfig{Config: valkeyrdma.Config{SendBuffer: 64 << 10, RecvBuffer: 64 << 10}}
	l, err := lc.Listen(context.Background(), ":6379")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
}

// The addresses of a connection are those of the network device below its RDMA link.
func ExampleAddr() {
	conn, err := valkeyrdma.Dial(context.Background(), "10.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(conn.RemoteAddr().(valkeyrdma.Addr).AddrPort().Port())
}
