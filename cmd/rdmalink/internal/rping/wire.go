package rping

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// info is the one message of the protocol: where the client's buffer is.
// On the wire its fields are big-endian and follow each other without a gap.
// In the server's answers they mean nothing.
type info struct {
	addr uint64
	rkey uint32
	size uint32 // bytes
}

const infoSize = 16

func (i info) String() string {
	return fmt.Sprintf("%d bytes at %#x, key %#x", i.size, i.addr, i.rkey)
}

func (i info) encode(b []byte) {
	binary.BigEndian.PutUint64(b, i.addr)
	binary.BigEndian.PutUint32(b[8:], i.rkey)
	binary.BigEndian.PutUint32(b[12:], i.size)
}

func decodeInfo(b []byte) info {
	return info{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
}

// fillPing writes the text of ping n: its number, then the characters from A to
// z over and over, one further on with each ping, and a NUL.
func fillPing(b []byte, n int) {
	const first, characters = 'A', 'z' - 'A' + 1
	head := copy(b, fmt.Sprintf("rdma-ping-%d: ", n))
	for i := range b[head:] {
		b[head+i] = byte(first + (n+i)%characters)
	}
	b[len(b)-1] = 0
}

// pingText returns the text of a ping: everything before the NUL, if there is one.
func pingText(b []byte) []byte {
	text, _, _ := bytes.Cut(b, []byte{0})
	return text
}

// echoSize is how much of a ping the server writes back: the text and its NUL.
func echoSize(b []byte) int { return min(len(pingText(b))+1, len(b)) }
