// Command cgo measures posting, polling and arming with rdma-core called
// from Go, as test/bench/ring and test/bench/c/ring.c measure goverbs and
// rdma-core alone. It is a module of its own because goverbs has no cgo in it.
//
//	CGO_ENABLED=1 go build -o cgo .
package main

import (
	"net/netip"

	"github.com/goverbs/goverbs/test/bench/ring/rounds"
)

func main() {
	rounds.Main("cgo", func(dev string, addr netip.Addr) (rounds.Rings, error) { return open(dev, addr), nil })
}
