package capture

import (
	"encoding/binary"
	"io"
	"time"
)

const (
	magicMicros = 0xa1b2c3d4
	magicNanos  = 0xa1b23c4d
)

type pcap struct {
	in    io.Reader
	order binary.ByteOrder
	link  uint32
	unit  time.Duration
	buf   []byte
}

func newPcap(in io.Reader, order binary.ByteOrder) (*pcap, error) {
	var head [24]byte
	if err := whole(in, head[:]); err != nil {
		return nil, err
	}
	p := &pcap{in: in, order: order, unit: time.Microsecond, link: order.Uint32(head[20:]) & 0xffff} // above: length of the FCS
	if order.Uint32(head[:]) == magicNanos {
		p.unit = time.Nanosecond
	}
	return p, nil
}

func (p *pcap) Next() (Record, error) {
	var head [16]byte
	if _, err := io.ReadFull(p.in, head[:1]); err != nil {
		return Record{}, err // io.EOF at the end of the file
	}
	if err := whole(p.in, head[1:]); err != nil {
		return Record{}, err
	}
	size := p.order.Uint32(head[8:])
	if size > Longest {
		return Record{}, errLong
	}
	p.buf = append(p.buf[:0], make([]byte, size)...)
	if err := whole(p.in, p.buf); err != nil {
		return Record{}, err
	}
	at := time.Unix(int64(p.order.Uint32(head[:])), 0).Add(time.Duration(p.order.Uint32(head[4:])) * p.unit)
	return Record{at, p.link, p.buf, int(p.order.Uint32(head[12:]))}, nil
}
