// Command cgo measures posting, polling and arming with rdma-core through cgo. test/bench/ring measures
// the same with goverbs, and test/bench/c/ring.c with rdma-core in C. Command cgo is a separate module,
// because goverbs doesn't use cgo.
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
