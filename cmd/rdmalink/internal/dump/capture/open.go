package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
