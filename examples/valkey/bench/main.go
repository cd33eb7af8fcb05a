// Command bench measures rueidis over RDMA and over TCP: nanoseconds and allocations of a GET, one at a time and many.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"testing"

	"github.com/redis/rueidis"

	"github.com/goverbs/goverbs/valkeyrdma"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	rdma := flag.String("rdma", "", "the server's address over RDMA")
	tcp := flag.String("tcp", "", "the server's address over TCP")
	size := flag.Int("size", 16, "bytes of the value")
	flag.Parse()
	dial := func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
		return new(valkeyrdma.Dialer).DialContext(ctx, "tcp", address)
	}
	over := map[string]rueidis.Client{"RDMA": connect(*rdma, dial), "TCP": connect(*tcp, nil)}
	ctx := context.Background()
	for _, c := range over {
		defer c.Close()
		if err := c.Do(ctx, c.B().Set().Key("key").Value(string(make([]byte, *size))).Build()).Error(); err != nil {
			log.Fatal(err)
		}
	}
	for round := range 3 {
		for _, name := range []string{"RDMA", "TCP"} {
			c := over[name]
			get := func() {
				if err := c.Do(ctx, c.B().Get().Key("key").Build()).Error(); err != nil {
					log.Fatal(err)
				}
			}
			one := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					get()
				}
			})
			many := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(64)
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						get()
					}
				})
			})
			fmt.Printf("%d %4s %8d ns %3d allocs one at a time, %8d ns %3d allocs of 64 at a time\n", round, name,
				one.NsPerOp(), one.AllocsPerOp(), many.NsPerOp(), many.AllocsPerOp())
		}
	}
}

func connect(address string, dial func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)) rueidis.Client {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, DialCtxFn: dial, DisableCache: true})
	if err != nil {
		log.Fatal(err)
	}
	return c
}
