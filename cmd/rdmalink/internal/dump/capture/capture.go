// Package capture reads and writes files of captured packets: pcap and pcapng.
package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Open finds out of which kind a file is.
func Open(r io.Reader) (Source, error) {
	in := bufio.NewReader(r)
	magic, err := in.Peek(4)
	if errors.Is(err, io.EOF) {
		return nil, errUnknown
	}
	if err != nil {
		return nil, err
	}
	switch {
	case binary.LittleEndian.Uint32(magic) == blockSection:
		return &pcapng{in: in}, nil
	case binary.LittleEndian.Uint32(magic) == magicMicros, binary.LittleEndian.Uint32(magic) == magicNanos:
		return newPcap(in, binary.LittleEndian)
	case binary.BigEndian.Uint32(magic) == magicMicros, binary.BigEndian.Uint32(magic) == magicNanos:
		return newPcap(in, binary.BigEndian)
	}
	return nil, errUnknown
}

// whole reads n bytes. A file that ends in between is cut off, which is an error.
func whole(in io.Reader, b []byte) error {
	_, err := io.ReadFull(in, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends within a packet", errCorrupt)
	}
	return err
}

// Record is one captured packet.
type Record struct {
	Time time.Time
	Link uint32 // LINKTYPE_…, the type of the first header
	Data []byte // valid until the next is read
	Full int    // how long the packet was; Data may have its beginning only
}

// Source gives packets; the last error is io.EOF.
type Source interface{ Next() (Record, error) }

// Longest is how long a packet in a file may be.
const Longest = 1 << 20

var (
	errUnknown = errors.New("not a capture file: the beginning is neither pcap's nor pcapng's")
	errLong    = errors.New("a packet in the file is longer than 1 MiB")
	errCorrupt = errors.New("the capture file is damaged")
)
