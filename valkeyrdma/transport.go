package valkeyrdma

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// transport is a queue pair with the memory of a connection.
type transport struct {
	cfg     *Config // with defaults
	conn    conn.Conn
	control *uverbs.MR // the control messages to send
	shared  *uverbs.MR // the receive buffer, which the peer writes; nil before share
	own     *uverbs.MR // the send buffer; nil before the first data that needs it

	registered int // bytes

	wr   [1]verbs.SendWR
	sges [2]verbs.SGE
}

// recvs is the number of posted receives, as in Valkey.
const recvs = 1024

// prepare posts all receives and allocates the memory of control messages. A peer that does not complete its
// connection pins no more than that. If prepare fails, the peer is refused.
func (c *Conn) prepare(rc conn.Conn) error {
	if dev := rc.Device(); !dev.Supports(verbs.QPTypeRC, verbs.OpRDMAWriteImm) {
		return fmt.Errorf("device %s, driver %s, has no RDMA WRITE with immediate data, which the protocol needs: use RoCE or InfiniBand, or TCP: %w",
			dev.Info().Name, dev.Info().Driver, verbs.ErrNotSupported)
	}
	v := &c.verbs
	v.conn = rc
	received, err := v.register(recvs*commandSize, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	if err := c.conn.Receives.Init(rc.QP(), recvs, received, 0, commandSize); err != nil {
		return err
	}
	v.control, err = v.register(controlSize, verbs.AccessLocalWrite)
	return err
}

// share allocates the receive buffer of an established connection and writes its offer. The buffer stays: valkey-server
// 9.1 does not survive an offer of another one.
func (v *transport) share() (err error) {
	n := v.cfg.RecvBuffer
	if v.shared, err = v.register(n, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	(&command{op: registerMemory, buffer: offer{v.shared.Addr(), uint32(n), v.shared.RKey()}}).put(v.control.Bytes()[offerAt.off:])
	return nil
}

// register allocates memory that lives as long as the connection.
func (v *transport) register(n int, access verbs.Access) (*uverbs.MR, error) {
	mr, err := v.conn.PD().AllocMR(n, access, nil)
	if err == nil {
		v.conn.Own(mr)
		v.registered += n
	}
	return mr, err
}

// registeredBytes returns how many bytes are registered now.
func (v *transport) registeredBytes() int {
	if v.control.Bytes() == nil { // the connection has freed everything
		return 0
	}
	return v.registered
}

// memory returns the memory that prepare and share have allocated.
func (v *transport) memory() memory {
	return memory{recv: v.shared.Bytes(), control: v.control.Bytes(), sends: v.cfg.SendBuffer, inline: int(v.conn.QP().Cap().MaxInline)}
}

// sendBuffer implements link.
func (v *transport) sendBuffer() ([]byte, error) {
	mr, err := v.register(v.cfg.SendBuffer, verbs.AccessLocalWrite)
	if err != nil {
		return nil, v.conn.Explain(err)
	}
	v.own = mr
	return mr.Bytes(), nil
}

// post implements link.
func (v *transport) post(m *message) error {
	wr := &v.wr[0]
	*wr = verbs.SendWR{WRID: uint64(m.id), Opcode: verbs.OpRDMAWriteImm, Imm: m.to.length, RemoteAddr: m.to.addr, RKey: m.to.key, Inline: m.inline}
	if m.signal {
		wr.Flags = verbs.SendSignaled
	}
	switch {
	case m.probe:
		v.sges[0] = verbs.SGE{}
		wr.Opcode, wr.SGL = netconn.ProbeOpcode(v.conn), v.sges[:1]
	case m.empty:
		wr.Opcode = verbs.OpRDMAWrite
	case m.control:
		wr.Opcode = verbs.OpSend
	}
	from := v.own
	if m.control {
		from = v.control
	}
	for _, p := range m.data {
		if p.n > 0 {
			i := len(wr.SGL)
			v.sges[i] = from.SGE(p.off, p.n)
			wr.SGL = v.sges[:i+1]
		}
	}
	_, err := v.conn.QP().PostSend(v.wr[:])
	wr.Inline = nil // it belongs to the caller
	if err != nil {
		return netconn.Reset(v.conn, err)
	}
	return nil
}
