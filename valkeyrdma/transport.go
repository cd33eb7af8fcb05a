package valkeyrdma

import (
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// transport is a queue pair with the memory of a connection.
type transport struct {
	conn     *rdmacm.Conn
	received *uverbs.MR // the control messages received
	shared   *uverbs.MR // the receive buffer, which the peer writes
	own      *uverbs.MR // send buffer, control messages to send

	wr    [1]verbs.SendWR
	sges  [2]verbs.SGE
	recv  [recvBatch]verbs.RecvWR
	rsges [recvBatch]verbs.SGE
}

const (
	// recvs is the number of posted receives, as in Valkey.
	recvs     = 1024
	recvBatch = 16
)

// prepare posts all receives. The buffers follow when the connection is established: a peer that only asks for a
// connection has no more than 32 KiB pinned.
func (v *transport) prepare(c *rdmacm.Conn) (err error) {
	if dev := c.Device(); !dev.Supports(verbs.QPTypeRC, verbs.OpRDMAWriteImm) {
		return fmt.Errorf("valkeyrdma: device %s, driver %s, has no RDMA WRITE with immediate data, which the protocol needs: use RoCE or InfiniBand, or TCP: %w",
			dev.Info().Name, dev.Info().Driver, verbs.ErrNotSupported)
	}
	v.conn = c
	if v.received, err = v.register(recvs*commandSize, verbs.AccessLocalWrite); err != nil {
		return err
	}
	for slot := 0; slot < recvs; slot += recvBatch {
		for i := range recvBatch {
			v.fill(i, uint64(slot+i))
		}
		if err := v.postRecvs(recvBatch); err != nil {
			return err
		}
	}
	return nil
}

// register allocates memory that lives as long as the connection.
func (v *transport) register(n int, access verbs.Access) (*uverbs.MR, error) {
	mr, err := v.conn.PD().AllocMR(n, access, nil)
	if err == nil {
		v.conn.Own(mr)
	}
	return mr, err
}

// buffers registers the buffers, and returns them with the offer of the receive buffer.
func (v *transport) buffers(cfg *Config) (m memory, err error) {
	if v.shared, err = v.register(cfg.RecvBuffer, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return m, err
	}
	if v.own, err = v.register(ownSize(cfg.SendBuffer), verbs.AccessLocalWrite); err != nil {
		return m, err
	}
	m = memory{recv: v.shared.Bytes(), own: v.own.Bytes(), sends: cfg.SendBuffer, inline: int(v.conn.QP().Cap().MaxInline)}
	(&command{op: registerMemory, buffer: offer{v.shared.Addr(), uint32(len(m.recv)), v.shared.RKey()}}).put(m.own[m.offer().off:])
	return m, nil
}

// fill sets entry i of the batch to a receive for a control message. A notice doesn't use its memory.
func (v *transport) fill(i int, slot uint64) {
	v.rsges[i] = v.received.SGE(int(slot)*commandSize, commandSize)
	v.recv[i] = verbs.RecvWR{WRID: slot, SGL: v.rsges[i : i+1]}
}

func (v *transport) postRecvs(n int) error {
	if n == 0 {
		return nil
	}
	_, err := v.conn.QP().PostRecv(v.recv[:n])
	return err
}

// arrived passes the message of a completed receive to the stream. The completion may be in memory that the kernel
// writes, as on rxe, so its WRID is checked too.
func (v *transport) arrived(wc *verbs.WC, s *stream) {
	switch {
	case wc.WRID >= recvs:
		s.fail(v.reset(fmt.Errorf("the device completed receive %d of %d", wc.WRID, recvs)))
	case wc.Opcode == verbs.WCRecvRDMAWithImm && wc.Flags&verbs.WCWithImm != 0:
		s.noticed(wc.Imm)
	case wc.Opcode == verbs.WCRecv && wc.Flags&verbs.WCWithImm == 0 && wc.ByteLen <= commandSize:
		s.commanded(v.received.Bytes()[int(wc.WRID)*commandSize:][:wc.ByteLen])
	default:
		s.fail(violation("%v of %d bytes with flags %v", wc.Opcode, wc.ByteLen, wc.Flags))
	}
}

// post implements link.
func (v *transport) post(m *message) error {
	wr := &v.wr[0]
	*wr = verbs.SendWR{WRID: uint64(m.id), Opcode: verbs.OpRDMAWriteImm, Imm: m.to.length, RemoteAddr: m.to.addr, RKey: m.to.key, Inline: m.inline}
	if m.signal {
		wr.Flags = verbs.SendSignaled
	}
	switch {
	case m.empty:
		wr.Opcode = verbs.OpRDMAWrite
	case m.control:
		wr.Opcode = verbs.OpSend
	}
	for _, p := range m.data {
		if p.n > 0 {
			i := len(wr.SGL)
			v.sges[i] = v.own.SGE(p.off, p.n)
			wr.SGL = v.sges[:i+1]
		}
	}
	_, err := v.conn.QP().PostSend(v.wr[:])
	wr.Inline = nil // it belongs to the caller
	if err != nil {
		return v.reset(err)
	}
	return nil
}

// reset returns the error for a connection that broke.
func (v *transport) reset(cause error) error {
	return fmt.Errorf("%w: %w", syscall.ECONNRESET, v.conn.Explain(cause))
}
