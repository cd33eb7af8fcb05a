package exchange

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Buffer describes memory that the peer may use.
type Buffer struct {
	Addr   uint64
	Length uint32
	RKey   uint32
}

const bufferSize = 16 // on the wire, big-endian

// session is what both ends have: a queue pair, and a small region whose first
// half a description is sent from and whose second half one is received into.
type session struct {
	qp   *uverbs.QP
	msgs *uverbs.MR
	sent uint64 // work requests so far
}

// prepare runs before the connection stands. The receive must be posted by
// then: on iWARP a message that finds none ends the connection.
func (s *session) prepare(c *rdmacm.Conn) error {
	msgs, err := c.PD().AllocMR(2*bufferSize, verbs.AccessLocalWrite, nil)
	if err != nil {
		return err
	}
	c.Own(msgs)
	s.qp, s.msgs = c.QP(), msgs
	_, err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{msgs.SGE(bufferSize, bufferSize)}}})
	return err
}

func (s *session) send(ctx context.Context, b Buffer) error {
	out := s.msgs.Bytes()[:bufferSize]
	binary.BigEndian.PutUint64(out, b.Addr)
	binary.BigEndian.PutUint32(out[8:], b.Length)
	binary.BigEndian.PutUint32(out[12:], b.RKey)
	return s.do(ctx, verbs.SendWR{Opcode: verbs.OpSend, SGL: []verbs.SGE{s.msgs.SGE(0, bufferSize)}})
}

func (s *session) receive(ctx context.Context) (Buffer, error) {
	wc, err := waitOne(ctx, s.qp.RecvCQ())
	if err != nil {
		return Buffer{}, fmt.Errorf("receive the peer's buffer: %w", err)
	}
	if wc.ByteLen != bufferSize {
		return Buffer{}, fmt.Errorf("the peer sent %d bytes, a description has %d", wc.ByteLen, bufferSize)
	}
	in := s.msgs.Bytes()[bufferSize:]
	return Buffer{binary.BigEndian.Uint64(in), binary.BigEndian.Uint32(in[8:]), binary.BigEndian.Uint32(in[12:])}, nil
}

// do carries out one work request and waits for it. A call that its context ends
// leaves its completion on the CQ; the next call recognizes it by the WRID.
func (s *session) do(ctx context.Context, wr verbs.SendWR) error {
	s.sent++
	wr.WRID, wr.Flags = s.sent, wr.Flags|verbs.SendSignaled
	if _, err := s.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	for {
		switch wc, err := waitOne(ctx, s.qp.SendCQ()); {
		case err != nil:
			return fmt.Errorf("%v: %w", wr.Opcode, err)
		case wc.WRID == wr.WRID:
			return nil
		}
	}
}

func waitOne(ctx context.Context, cq *uverbs.CQ) (verbs.WC, error) {
	var wcs [1]verbs.WC
	if _, err := cq.Wait(ctx, wcs[:]); err != nil {
		return verbs.WC{}, err
	}
	return wcs[0], wcs[0].Err()
}
