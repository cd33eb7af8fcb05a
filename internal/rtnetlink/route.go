// Package rtnetlink reads the settings of network devices that RDMA depends on: Data Center
// Bridging, with the counters of PFC, and queueing disciplines.
package rtnetlink

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// Route sends a request of rtnetlink and returns the payloads of the replies. With dump
// it requests all objects.
type Route func(typ uint16, dump bool, body []byte) ([][]byte, error)

// Kernel is the Route to the running kernel. It needs no privileges to read.
func Kernel(typ uint16, dump bool, body []byte) ([][]byte, error) { return kernel(typ, dump, body) }

// wholeTries is how often a list is asked for that changes while the kernel writes it.
const wholeTries = 100

// UntilWhole calls list again, up to 100 times, while the kernel reports, as EINTR, that the list changed under it.
func UntilWhole[T any](list func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		all, err := list()
		if !errors.Is(err, syscall.EINTR) || try == wholeTries {
			return all, err
		}
	}
}

// attr encodes an attribute of a message.
func attr(typ uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, typ), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

// eachAttr calls f for each attribute. It stops at a truncated one.
func eachAttr(b []byte, f func(typ uint16, value []byte)) {
	for len(b) >= 4 {
		length := int(binary.NativeEndian.Uint16(b))
		if length < 4 || length > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&0x3fff, b[4:length]) // without the flags for nested ones and byte order
		b = b[min((length+3)&^3, len(b)):]
	}
}
