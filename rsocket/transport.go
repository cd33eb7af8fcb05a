package rsocket

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// transport is a queue pair with the memory of a connection. It sends a message as an RDMA WRITE with immediate
// data on InfiniBand and RoCE. On iWARP, which has no immediate data, it sends an RDMA WRITE and a SEND of
// the word.
type transport struct {
	conn   conn.Conn
	iwarp  bool
	shared *uverbs.MR // the peer writes here: both tables, receive buffer
	tables int        // bytes of the tables
	own    *uverbs.MR // send buffer, then the words received on iWARP
	sends  int        // bytes of the send buffer
	order  binary.ByteOrder

	wrs  [2]verbs.SendWR
	sges [2]verbs.SGE
	word [wordSize]byte
}

const (
	wordSize = 4
	// spareRecvs is the number of receives beyond the credits. While a program does not read, its
	// peer sends at most seven words without data. These are two offers and two credit limits in
	// answer to the program's messages, its first offer, SHUTDOWN and DISCONNECT.
	spareRecvs = 8
)

// prepare registers memory and posts all receives.
func (v *transport) prepare(c conn.Conn, cfg *Config, receives *netconn.Receives) (err error) {
	recvs := cfg.RecvQueue + spareRecvs
	v.conn, v.sends = c, cfg.SendBuffer
	// The buffer behind the tables is aligned.
	v.tables = (tableEntries*offerSize + cfg.Mappings*mappingSize + 63) &^ 63
	// librdmacm asks for the transport, not for what a device supports: erdma is iWARP and has
	// immediate data.
	v.iwarp = c.Device().Info().NodeType == verbs.NodeRNIC
	if v.shared, err = c.PD().AllocMR(v.tables+cfg.RecvBuffer, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, nil); err != nil {
		return err
	}
	c.Own(v.shared)
	if v.own, err = c.PD().AllocMR(v.sends+recvs*wordSize, verbs.AccessLocalWrite, nil); err != nil {
		return err
	}
	c.Own(v.own)
	// On InfiniBand and RoCE words are immediate data, which needs no memory.
	if !v.iwarp {
		return receives.Init(c.QP(), recvs, nil, 0, 0)
	}
	return receives.Init(c.QP(), recvs, v.own, v.sends, wordSize)
}

func (v *transport) hello(cfg *Config) *hello {
	at := v.shared.Addr()
	return &hello{bigEndian: bigEndian, credits: uint16(cfg.RecvQueue), mappings: cfg.Mappings,
		table:  offer{at, v.shared.RKey(), tableEntries},
		buffer: offer{at + uint64(v.tables), v.shared.RKey(), uint32(cfg.RecvBuffer / 2)}}
}

func (v *transport) memory(cfg *Config) memory {
	b := v.shared.Bytes()
	return memory{table: b[:tableEntries*offerSize], mappings: b[tableEntries*offerSize:][:cfg.Mappings*mappingSize],
		recv: b[v.tables:], send: v.own.Bytes()[:v.sends],
		addr: v.shared.Addr() + uint64(v.tables), key: v.shared.RKey(), inline: int(v.conn.QP().Cap().MaxInline)}
}

// received returns the word of a completed receive.
func (v *transport) received(wc *verbs.WC, receives *netconn.Receives) (word, error) {
	switch {
	case !v.iwarp && wc.Flags&verbs.WCWithImm != 0 && wc.Opcode == verbs.WCRecvRDMAWithImm:
		return word(wc.Imm), nil
	case v.iwarp && wc.ByteLen == wordSize:
		return word(v.order.Uint32(receives.Bytes(wc.WRID))), nil
	}
	return 0, violation("a message of %d bytes that is not a control word", wc.ByteLen)
}

// post implements link.
func (v *transport) post(m *message) error {
	wr, flags := &v.wrs[0], verbs.SendSignaled
	if m.quiet {
		flags = 0
	}
	*wr = verbs.SendWR{WRID: uint64(m.id), Opcode: verbs.OpRDMAWriteImm, Flags: flags, Imm: uint32(m.word),
		RemoteAddr: m.to.addr, RKey: m.to.key, Inline: m.inline}
	for _, p := range m.data {
		if p.n > 0 {
			i := len(wr.SGL)
			v.sges[i] = v.own.SGE(p.off, p.n)
			wr.SGL = v.sges[:i+1]
		}
	}
	n := 1
	switch {
	case m.probe:
		v.sges[0] = verbs.SGE{} // siw wants one
		wr.Opcode, wr.Imm, wr.SGL = netconn.ProbeOpcode(v.conn), 0, v.sges[:1]
	case m.bare:
		wr.Opcode, wr.Imm = verbs.OpRDMAWrite, 0
	case v.iwarp:
		n = v.addSend(m, flags)
	}
	_, err := v.conn.QP().PostSend(v.wrs[:n])
	wr.Inline = nil // it belongs to the caller
	if err != nil {
		return netconn.Reset(v.conn, err)
	}
	return nil
}

// addSend adds a SEND of the word. It completes after the RDMA WRITE before it, which therefore needs no
// completion. A WRITE that fails generates a completion anyway. Its WRID returns no resources.
func (v *transport) addSend(m *message, flags verbs.SendFlags) int {
	send := &v.wrs[0]
	n := 1
	if m.hasData() {
		send.WRID, send.Opcode, send.Flags, send.Imm = 0, verbs.OpRDMAWrite, 0, 0
		send, n = &v.wrs[1], 2
	}
	binary.NativeEndian.PutUint32(v.word[:], uint32(m.word))
	*send = verbs.SendWR{WRID: uint64(m.id), Opcode: verbs.OpSend, Flags: flags, Inline: v.word[:]}
	return n
}
