package rsocket_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/rsocket"
)

// exampleTest takes the place of a *testing.T for devices in software.
type exampleTest struct{}

func (exampleTest) Helper()                           {}
func (exampleTest) Cleanup(func())                    {}
func (exampleTest) Errorf(format string, args ...any) { log.Printf(format, args...) }

// exampleConns are both ends of a connection between two hosts in software.
func exampleConns(z rsocket.Config) (client, server *rsocket.Conn) {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	lc := rsocket.ListenConfig{Config: z}
	l, err := lc.Listen(context.Background(), fabric.Host(1).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		accepted <- conn
	}()
	d := rsocket.Dialer{Config: z}
	conn, err := d.Dial(context.Background(), l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	return conn, (<-accepted).(*rsocket.Conn)
}

// A server and a client, on devices in software. A real device needs the address of its
// host, and a blank import of its provider.
func Example() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	l, err := rsocket.Listen(context.Background(), fabric.Host(1).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "hello"); err != nil {
			log.Fatal(err)
		}
	}()
	conn, err := rsocket.Dial(context.Background(), l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	fmt.Printf("%s, %v\n", text, err)
	// Output: hello, <nil>
}

// One end ends its data, and can still read the data of the other.
func ExampleConn_CloseWrite() {
	client, server := exampleConns(rsocket.Config{})
	defer client.Close()
	go func() {
		defer server.Close()
		question, err := io.ReadAll(server)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprintf(server, "%d bytes", len(question))
	}()
	if _, err := io.WriteString(client, "question"); err != nil {
		log.Fatal(err)
	}
	if err := client.CloseWrite(); err != nil {
		log.Fatal(err)
	}
	answer, err := io.ReadAll(client)
	fmt.Printf("%s, %v\n", answer, err)
	// Output: 8 bytes, <nil>
}

// Each connection of this listener pins 8 KiB instead of 256 KiB.
func ExampleListenConfig() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	lc := rsocket.ListenConfig{Backlog: 16, Config: rsocket.Config{SendBuffer: 4096, RecvBuffer: 4096}}
	l, err := lc.Listen(context.Background(), fabric.Host(0).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Close())
	// Output: <nil>
}

// A listener that was asked for any port says which one it has.
func ExampleListener() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	l, err := rsocket.Listen(context.Background(), fabric.Host(0).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr().(rsocket.Addr).AddrPort().Port() != 0)
	fmt.Println(l.Close())
	// Output:
	// true
	// <nil>
}

// An address has the form that package netip works with.
func ExampleAddr() {
	client, server := exampleConns(rsocket.Config{})
	defer client.Close()
	defer server.Close()
	local := client.LocalAddr().(rsocket.Addr)
	remote := server.RemoteAddr().(rsocket.Addr)
	fmt.Println(local.AddrPort() == remote.AddrPort())
	// Output: true
}

// The client writes into the server's memory. The server reads a byte that was sent behind
// it, and then looks.
func ExampleMapping() {
	client, server := exampleConns(rsocket.Config{Mappings: 1})
	defer client.Close()
	defer server.Close()
	memory := make([]byte, 16)
	mapping, err := server.Map(memory, 0)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		// The server's data behind the mapping shows that the mapping has arrived.
		if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
			log.Fatal(err)
		}
		if _, err := client.WriteAt([]byte("one-sided"), 4); err != nil {
			log.Fatal(err)
		}
		if _, err := client.Write([]byte{1}); err != nil {
			log.Fatal(err)
		}
	}()
	if _, err := server.Write([]byte{1}); err != nil {
		log.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", memory)
	fmt.Println(mapping.Close())
	// Output:
	// "\x00\x00\x00\x00one-sided\x00\x00\x00"
	// <nil>
}
