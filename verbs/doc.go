// Package verbs has the vocabulary of RDMA: work requests and completions, the attributes of
// devices, ports and queue pairs, the values that those take, and the errors that calls match.
// It makes no calls itself. Package uverbs makes them, and rdmacm, msg and netlinkrdma use the
// same types.
//
// The shortest whole program:
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//
//		"github.com/goverbs/goverbs/uverbs"
//		"github.com/goverbs/goverbs/verbs"
//	)
//
//	func main() {
//		dev, err := uverbs.Open("rxe0")
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer dev.Close()
//		port, err := dev.QueryPort(1)
//		if err != nil {
//			log.Fatal(err)
//		}
//		if port.State != verbs.PortActive {
//			log.Fatalf("port 1 is %v", port.State)
//		}
//		hello := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: []byte("hello")}
//		fmt.Printf("%v of %d bytes, in packets of up to %d\n", hello.Opcode, len(hello.Inline), port.ActiveMTU.Bytes())
//	}
//
// # Work
//
// A [SendWR] asks for a message, an access to the peer's memory, or a change of a key; a
// [RecvWR] takes a message. [SGE] names the memory. Each request that completes is reported by
// a [WC], whose [Status] is an error unless it is StatusSuccess.
//
// # Attributes
//
// [DeviceAttr] and [PortAttr] are read. [QPAttr], together with a [QPAttrMask], is read and
// written. [AHAttr] is an address. A [GID] identifies a port, and on RoCE it is an IP address.
//
// # Values
//
// A value that has no name prints as its type and number: QPState(27). Sets of bits print the
// names of their bits. Numbers are in the machine's byte order.
//
// # Errors
//
// Errors of all packages match [ErrNotSupported], [ErrClosed] and the others with errors.Is.
package verbs
