package msg_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/msg"
	"github.com/goverbs/goverbs/rdmatest"
)

// exampleTest is what devices in software need in place of a *testing.T.
type exampleTest struct{}

func (exampleTest) Helper()                           {}
func (exampleTest) Cleanup(func())                    {}
func (exampleTest) Errorf(format string, args ...any) { log.Printf(format, args...) }

// exampleConns are both ends of a connection between two hosts in software.
func exampleConns(ctx context.Context) (client, server *msg.Conn) {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	l, err := msg.Listen(fabric.Host(1).Addr() + ":0")
	if err != nil {
		log.Fatal(err)
	}
	accepted := make(chan *msg.Conn, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		accepted <- c
	}()
	if client, err = msg.Dial(ctx, l.Addr().String()); err != nil {
		log.Fatal(err)
	}
	return client, <-accepted
}

// A listener says at which port it is when it was asked for any.
func ExampleListener() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	l, err := msg.Listen(fabric.Host(0).Addr() + ":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Addr().Port() != 0, l.Close())
	// Output: true <nil>
}

// A message is released when its bytes are no more needed. So the sender may send another.
func ExampleMessage() {
	ctx := context.Background()
	client, server := exampleConns(ctx)
	if err := client.Send(ctx, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	m, err := server.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", m.Bytes())
	m.Release()
	// Output: hello
}

// A listener with a small backlog and small buffers.
func ExampleListenConfig() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	lc := msg.ListenConfig{Backlog: 16, Config: msg.Config{EagerSize: 256}}
	l, err := lc.Listen(context.Background(), fabric.Host(0).Addr()+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Close())
	// Output: <nil>
}

// A dial that gives up after a second.
func ExampleDialer() {
	fabric := rdmatest.NewWith(exampleTest{}, &rdmatest.Options{Endless: true})
	d := msg.Dialer{Timeout: time.Second}
	_, err := d.Dial(context.Background(), fabric.Host(0).Addr()+":7471")
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))
	// Output: true
}
