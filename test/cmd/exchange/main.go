// Command exchange runs one end of package exchange's flow.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	_ "github.com/goverbs/goverbs/provider/all"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/test/exchange"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("exchange", flag.ContinueOnError)
	fs.SetOutput(stderr)
	serve := fs.String("s", "", "serve on this `address`, such as :7471")
	dial := fs.String("c", "", "dial this `address`, such as 10.9.9.9:7471")
	size := fs.Int("size", 1<<20, "bytes to move (client)")
	count := fs.Int("n", 1, "connections to make or to serve, one after the other")
	limit := fs.Duration("timeout", time.Minute, "give up after this long")
	switch err := fs.Parse(args); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return 2
	case (*serve == "") == (*dial == "") || fs.NArg() > 0 || *size < 1 || *size > exchange.MaxSize:
		fmt.Fprintf(stderr, "exchange: give one of -s and -c, and a size from 1 to %d\n", exchange.MaxSize)
		fs.Usage()
		return 2
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	var err error
	if *serve != "" {
		err = server(ctx, *serve, *count, stdout)
	} else {
		err = client(ctx, *dial, *size, *count, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "exchange:", err)
		return 1
	}
	return 0
}

func server(ctx context.Context, addr string, count int, stdout io.Writer) error {
	ln, err := rdmacm.Listen(ctx, addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	fmt.Fprintln(stdout, "server: listening on", ln.Addr())
	for range count {
		got, err := exchange.Serve(ctx, ln)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "server: the client left %d bytes, CRC %08x\n", got.Size, got.CRC)
	}
	return nil
}

func client(ctx context.Context, addr string, size, count int, stdout io.Writer) error {
	for range count {
		r, err := exchange.Client(ctx, addr, size)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "client: %d bytes, CRC %08x: write %s, read back %s, data equal\n",
			r.Size, r.CRC, rate(r.Size, r.Write), rate(r.Size, r.Read))
	}
	return nil
}

func rate(n int, d time.Duration) string {
	return fmt.Sprintf("%v (%.1f MiB/s)", d.Round(time.Microsecond), float64(n)/(1<<20)/d.Seconds())
}
