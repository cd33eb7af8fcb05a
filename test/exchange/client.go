package exchange

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Result holds a client's measurements.
type Result struct {
	Size        int
	Write, Read time.Duration // from post to completion
	CRC         uint32        // IEEE, of the pattern
}

// ErrCorrupt means that the returned data differs from the data that was sent.
var ErrCorrupt = errors.New("data came back changed")

// Client writes size bytes into the memory of the server at addr, reads them
// back and compares.
func Client(ctx context.Context, addr string, size int) (*Result, error) {
	var s session
	conn, err := (&rdmacm.Dialer{Config: rdmacm.Config{Prepare: s.prepare}}).Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	out, err := conn.PD().AllocMR(size, verbs.AccessLocalWrite, nil)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	back, err := conn.PD().AllocMR(size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	fill(out.Bytes())
	if err := s.send(ctx, Buffer{back.Addr(), uint32(size), back.RKey()}); err != nil {
		return nil, err
	}
	theirs, err := s.receive(ctx)
	if err != nil {
		return nil, err
	}
	res := &Result{Size: size, CRC: crc32.ChecksumIEEE(out.Bytes())}
	if res.Write, err = s.move(ctx, verbs.OpRDMAWrite, out, theirs); err != nil {
		return nil, err
	}
	if res.Read, err = s.move(ctx, verbs.OpRDMARead, back, theirs); err != nil {
		return nil, err
	}
	if at := firstDifference(out.Bytes(), back.Bytes()); at < size {
		return nil, fmt.Errorf("%w: %d bytes, first difference at %d", ErrCorrupt, size, at)
	}
	return res, conn.Disconnect()
}

// move writes a whole region to the peer's buffer, or reads it from there.
func (s *session) move(ctx context.Context, op verbs.Opcode, mr *uverbs.MR, peer Buffer) (time.Duration, error) {
	start := time.Now()
	err := s.do(ctx, verbs.SendWR{Opcode: op, SGL: []verbs.SGE{mr.SGE(0, mr.Len())}, RemoteAddr: peer.Addr, RKey: peer.RKey})
	return time.Since(start), err
}

// fill makes a pattern in which no short stretch repeats at a power of two.
func fill(b []byte) {
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
}

// firstDifference is a plain loop: an emulated CPU takes ten times as long over
// the vector instructions of bytes.Equal.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}
