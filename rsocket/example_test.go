package rsocket_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/goverbs/goverbs/rsocket"

	_ "github.com/goverbs/goverbs/provider/all"
)

// A web server over RDMA. It needs an RDMA link, so it is compiled but not run here.
func ExampleListen() {
	l, err := rsocket.Listen(context.Background(), ":8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(l, http.FileServer(http.Dir("."))))
}

// A web server whose process may exit once Shutdown has returned: the last answer has been
// sent by then, because each connection waits for that as it is closed.
func ExampleConn_SetLinger() {
	server := http.Server{
		Handler: http.FileServer(http.Dir(".")),
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateNew {
				_ = c.(*rsocket.Conn).SetLinger(10)
			}
		},
	}
	l, err := rsocket.Listen(context.Background(), ":8080")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(l))
}

// A web client over RDMA.
func ExampleDialer() {
	d := rsocket.Dialer{Timeout: 5 * time.Second}
	client := http.Client{Transport: &http.Transport{DialContext: d.DialContext}}
	resp, err := client.Get("http://10.0.0.1:8080/")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	fmt.Println(n, err)
}

// A client that sends a request, ends its data, and reads the answer to the end.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := rsocket.Dial(ctx, "10.0.0.1:7471")
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		log.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		log.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	fmt.Printf("%q, %v\n", answer, err)
}
