// Package verbs defines the types of RDMA that all packages share: work requests and completions,
// attributes of devices, ports and queue pairs, their values, and errors. The operations are in
// packages uverbs, rdmacm, msg and netlinkrdma.
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
// A [SendWR] sends a message, accesses the peer's memory, or changes a key. A [RecvWR] receives a
// message. Both name memory by [SGE]s. A [WC] reports that a request has completed. Its [Status]
// is an error unless it is StatusSuccess.
//
// # Attributes
//
// [DeviceAttr] and [PortAttr] describe devices and ports. [QPAttr], together with a [QPAttrMask],
// has the attributes of a queue pair. [AHAttr] is an address. A [GID] identifies a port; on RoCE
// it is an IP address.
//
// # Values
//
// A value that has no name prints as its type and number: QPState(27). Sets of bits print the
// names of their bits. Numbers are in the machine's byte order.
//
// # Errors
//
// There is an [Error] in each error of the packages of this module. errors.As finds it, with the operation, the object
// and the remedy. errors.Is matches its cause: an errno, [ErrNotSupported], [ErrClosed] and the others here, the error
// of a context, or a sentinel error of the package. A cause that has data is of its own type, such as
// rdmacm.RejectedError, mad.StatusError or umad.TooLongError, which errors.As finds too. The byte streams return a
// *net.OpError around the Error, and package redial an error of its own.
//
// The text names each operation and object once, and no package.
//
// A method Err returns the cause alone, and [io.EOF] stays as it is. An error of a program's own reader or writer is
// returned as it is.
package verbs
