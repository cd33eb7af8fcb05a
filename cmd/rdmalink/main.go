// Rdmalink shows and changes RDMA devices, links and what lives on them, as
// iproute2's rdma does, and pings over them, as librdmacm's rping and libibverbs's
// pingpong programs do, and measures them, as perftest does, from one static binary
// that needs nothing but the kernel.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	_ "github.com/goverbs/goverbs/provider/all"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
