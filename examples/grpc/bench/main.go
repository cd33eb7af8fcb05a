// Command bench is the part of goverbs's benchmark that needs gRPC: calls by several
// callers on one connection, over RDMA or over TCP, without TLS.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/goverbs/goverbs/rsocket"
	"github.com/goverbs/goverbs/test/bench/result"

	_ "github.com/goverbs/goverbs/provider/all"
)

const usage = `usage: bench serve NETWORK ADDRESS:PORT SIZE ROUNDS COUNT    answer calls until the client says that it was the last one
       bench dial NETWORK ADDRESS:PORT SIZE ROUNDS COUNT     COUNT callers make ROUNDS calls of SIZE bytes each; prints a sample

NETWORK: grpc-rsocket or grpc-tcp.`

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("%d words\n%s", len(args), usage)
	}
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(args[3+i]); err != nil || n[i] < 1 {
			return fmt.Errorf("%q is not a positive number\n%s", args[3+i], usage)
		}
	}
	switch tcp := args[1] == "grpc-tcp"; {
	case args[0] == "serve":
		return serve(tcp, args[2])
	case args[0] == "dial":
		return dial(ctx, tcp, args[2], n[0], n[1], n[2])
	}
	return fmt.Errorf("%q is not known\n%s", args[0], usage)
}

// server echoes. An empty call ends it.
type server struct {
	grpc_testing.UnimplementedTestServiceServer
	stop func()
}

func (s *server) UnaryCall(_ context.Context, r *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	return &grpc_testing.SimpleResponse{Payload: r.GetPayload()}, nil
}

func (s *server) EmptyCall(context.Context, *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	go s.stop()
	return new(grpc_testing.Empty), nil
}

func serve(tcp bool, address string) error {
	var l net.Listener
	var err error
	if tcp {
		l, err = net.Listen("tcp", address)
	} else {
		l, err = rsocket.Listen(address)
	}
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(s, &server{stop: s.GracefulStop})
	return s.Serve(l)
}

func dial(ctx context.Context, tcp bool, address string, size, rounds, count int) error {
	connect := new(rsocket.Dialer).DialContext
	if tcp {
		connect = new(net.Dialer).DialContext
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return connect(ctx, "tcp", address) }))
	if err != nil {
		return err
	}
	defer conn.Close()
	c := grpc_testing.NewTestServiceClient(conn)
	if err := call(ctx, c, size, 2, count); err != nil { // they do not count
		return err
	}
	start := time.Now()
	if err := call(ctx, c, size, rounds, count); err != nil {
		return err
	}
	took := time.Since(start)
	if _, err := c.EmptyCall(ctx, new(grpc_testing.Empty)); err != nil {
		return err
	}
	return result.Write(os.Stdout, result.Sample{Measure: "grpc", Unit: "requests/s", Value: float64(rounds*count) / took.Seconds()})
}

// call has count callers make calls, one after the other each.
func call(ctx context.Context, c grpc_testing.TestServiceClient, size, rounds, count int) error {
	var all sync.WaitGroup
	failed := make([]error, count)
	request := &grpc_testing.SimpleRequest{Payload: &grpc_testing.Payload{Body: make([]byte, size)}}
	for i := range count {
		all.Go(func() {
			for n := 0; n < rounds && failed[i] == nil; n++ {
				r, err := c.UnaryCall(ctx, request)
				if got := len(r.GetPayload().GetBody()); err == nil && got != size {
					err = fmt.Errorf("an answer of %d bytes", got)
				}
				failed[i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
