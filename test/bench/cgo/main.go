// Command cgo measures posting, polling and arming with rdma-core called
// from Go, as test/bench/ring and test/bench/c/ring.c measure goverbs and
// rdma-core alone. It is a module of its own because goverbs has no cgo in it.
//
//	CGO_ENABLED=1 go build -o cgo .
package main

import (
	"errors"
	"net/netip"

	"github.com/goverbs/goverbs/test/bench/ring/rounds"
)

func main() {
	rounds.Main("cgo", func(dev string, addr netip.Addr, raw bool) (rounds.Rings, error) {
		if raw {
			return nil, errors.ErrUnsupported
		}
		return open(dev, addr), nil
	})
}
