package capture

import (
	"encoding/binary"
	"io"
)

// Writer writes a pcap file.
type Writer struct{ out io.Writer }

// NewWriter begins a file of packets of a link type.
func NewWriter(out io.Writer, link uint32) (*Writer, error) {
	var head [24]byte
	binary.LittleEndian.PutUint32(head[:], magicNanos)
	binary.LittleEndian.PutUint16(head[4:], 2)
	binary.LittleEndian.PutUint16(head[6:], 4)
	binary.LittleEndian.PutUint32(head[16:], Longest)
	binary.LittleEndian.PutUint32(head[20:], link)
	_, err := out.Write(head[:])
	return &Writer{out}, err
}

// Write appends a packet.
func (w *Writer) Write(r Record) error {
	b := make([]byte, 16, 16+len(r.Data))
	binary.LittleEndian.PutUint32(b, uint32(r.Time.Unix()))
	binary.LittleEndian.PutUint32(b[4:], uint32(r.Time.Nanosecond()))
	binary.LittleEndian.PutUint32(b[8:], uint32(len(r.Data)))
	binary.LittleEndian.PutUint32(b[12:], uint32(r.Full))
	_, err := w.out.Write(append(b, r.Data...))
	return err
}
