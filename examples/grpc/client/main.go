// Command client makes gRPC calls over RDMA, with TLS: one, and many at a time.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/goverbs/goverbs/rsocket"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	certFile := flag.String("cert", "cert.pem", "the server's certificate")
	calls := flag.Int("calls", 1000, "how many streams are open at a time")
	limit := flag.Duration("timeout", time.Minute, "of all together")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	creds, err := credentials.NewClientTLSFromFile(*certFile, "")
	if err != nil {
		log.Fatal(err)
	}
	// Without "passthrough" gRPC would look the name up by itself.
	conn, err := grpc.NewClient("passthrough:///"+flag.Arg(0), grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return rsocket.Dial(ctx, address)
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	c := grpc_testing.NewTestServiceClient(conn)
	if err := call(ctx, c, 1<<20); err != nil {
		log.Fatal(err)
	}
	if err := callMany(ctx, c, *calls); err != nil {
		log.Fatal(err)
	}
	fmt.Println("a call of 1 MiB and", *calls, "streams at a time: ok")
}

func payload(size, seed int) *grpc_testing.Payload {
	return &grpc_testing.Payload{Body: bytes.Repeat([]byte{byte(seed), byte(seed >> 8), 1, 2}, (size+3)/4)[:size]}
}

// call sends a message and compares the answer.
func call(ctx context.Context, c grpc_testing.TestServiceClient, size int) error {
	p := payload(size, 0)
	r, err := c.UnaryCall(ctx, &grpc_testing.SimpleRequest{Payload: p})
	if err == nil && !bytes.Equal(r.GetPayload().GetBody(), p.GetBody()) {
		err = fmt.Errorf("the bytes that came back differ from the %d sent", size)
	}
	return err
}

// callMany has n streams at a time: none ends before each has got its first answer.
func callMany(ctx context.Context, c grpc_testing.TestServiceClient, n int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var open, done sync.WaitGroup
	open.Add(n)
	for i := range n {
		done.Go(func() {
			if err := stream(ctx, c, i, &open); err != nil {
				cancel(fmt.Errorf("stream %d: %w", i, err))
			}
		})
	}
	done.Wait()
	return context.Cause(ctx)
}

// stream sends messages one after the other, each when the last one's answer is there.
func stream(ctx context.Context, c grpc_testing.TestServiceClient, seed int, open *sync.WaitGroup) error {
	opened := sync.OnceFunc(open.Done)
	defer opened()
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	for i := range 3 {
		p := payload(100*i+seed%50, seed)
		if err := s.Send(&grpc_testing.StreamingOutputCallRequest{Payload: p}); err != nil {
			return err
		}
		r, err := s.Recv()
		if err != nil {
			return err
		}
		if !bytes.Equal(r.GetPayload().GetBody(), p.GetBody()) {
			return fmt.Errorf("message %d came back with other bytes", i)
		}
		opened()
		open.Wait()
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	if _, err := s.Recv(); err != io.EOF {
		return fmt.Errorf("instead of the end: %w", err)
	}
	return nil
}
