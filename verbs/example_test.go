package verbs_test

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/verbs"
)

// A work request names registered memory by address, length and key.
func Example() {
	wr := verbs.SendWR{
		WRID:   7,
		Opcode: verbs.OpRDMAWrite,
		Flags:  verbs.SendSignaled,
		SGL:    []verbs.SGE{{Addr: 0x10000, Length: 64, LKey: 0x1234}},
	}
	fmt.Println(wr.Opcode, wr.SGL[0].Length)
	// Output: RDMA_WRITE 64
}

// The GID of a RoCE v2 port is its IP address.
func ExampleGIDFromAddr() {
	gid := verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))
	fmt.Println(gid, gid.Addr(), gid.IsMulticast())
	// Output: ::ffff:192.0.2.1 192.0.2.1 false
}

// An MTU is a code for a size.
func ExampleMTU() {
	fmt.Println(verbs.MTU1024.Bytes())
	// Output: 1024
}

// A completion that failed is an error that matches its status.
func ExampleWC_Err() {
	good := verbs.WC{WRID: 1, Status: verbs.StatusSuccess}
	bad := verbs.WC{WRID: 2, Status: verbs.StatusRemAccessErr}
	fmt.Println(good.Err())
	fmt.Println(bad.Err())
	fmt.Println(errors.Is(bad.Err(), verbs.StatusRemAccessErr))
	// Output:
	// <nil>
	// complete work request 0x2 on QP 0: remote access error
	// true
}

// A limit of rate is a code for a speed.
func ExampleRate() {
	r := verbs.RateOfMult(4)
	fmt.Println(r.Mbps(), "Mb/s")
	// Output: 10000 Mb/s
}
