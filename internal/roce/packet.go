// Package roce has the packets of RoCE v2: their operations, headers and invariant CRC.
package roce

import (
	"encoding/binary"
	"errors"
)

// Port is the UDP port of RoCE v2.
const Port = 4791

// MostPayload is the length of the longest payload of a packet, in bytes.
const MostPayload = 4096

// MostPacket is the length of the longest packet, from its BTH to its ICRC, in bytes.
const MostPacket = bthSize + 16 + 4 + MostPayload + ICRCSize

// Numbers of packets and queue pairs have 24 bits.
const mask24 = 1<<24 - 1

const bthSize = 12

// Packet is the transport part of a packet. Fields whose header the operation does not have are zero.
type Packet struct {
	Opcode     byte // service and operation
	Solicited  bool
	AckRequest bool
	PKey       uint16
	DestQPN    uint32
	PSN        uint32

	VA            uint64 // of RETH and AtomicETH
	RKey          uint32
	Length        uint32
	Swap, Compare uint64 // of AtomicETH: Swap is also the addend
	Syndrome      byte   // of AETH
	MSN           uint32
	Original      uint64 // of AtomicAckETH
	Imm           uint32 // of ImmDt, as it is in memory
	Invalid       uint32 // key of IETH
	QKey, SrcQPN  uint32 // of DETH

	Payload []byte
}

// Service returns the service of the packet's opcode.
func (p *Packet) Service() byte { return p.Opcode >> 5 }

// Op returns the operation of the packet's opcode.
func (p *Packet) Op() byte { return p.Opcode & 31 }

// Append appends the packet without its ICRC to b.
func (p *Packet) Append(b []byte) []byte {
	pad := -len(p.Payload) & 3
	flags := byte(pad) << 4
	if p.Solicited {
		flags |= 0x80
	}
	psn := p.PSN & mask24
	if p.AckRequest {
		psn |= 1 << 31
	}
	b = append(b, p.Opcode, flags)
	b = binary.BigEndian.AppendUint16(b, p.PKey)
	b = binary.BigEndian.AppendUint32(b, p.DestQPN&mask24)
	b = binary.BigEndian.AppendUint32(b, psn)
	if p.Service() == ServiceUD {
		b = binary.BigEndian.AppendUint32(b, p.QKey)
		b = binary.BigEndian.AppendUint32(b, p.SrcQPN&mask24)
	}
	parts := Operations[p.Op()].Parts
	if parts&HasRETH != 0 {
		b = binary.BigEndian.AppendUint64(b, p.VA)
		b = binary.BigEndian.AppendUint32(b, p.RKey)
		b = binary.BigEndian.AppendUint32(b, p.Length)
	}
	if parts&HasAtomicETH != 0 {
		b = binary.BigEndian.AppendUint64(b, p.VA)
		b = binary.BigEndian.AppendUint32(b, p.RKey)
		b = binary.BigEndian.AppendUint64(b, p.Swap)
		b = binary.BigEndian.AppendUint64(b, p.Compare)
	}
	if parts&HasAETH != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(p.Syndrome)<<24|p.MSN&mask24)
	}
	if parts&HasAtomicAckETH != 0 {
		b = binary.BigEndian.AppendUint64(b, p.Original)
	}
	if parts&HasImmDt != 0 {
		b = binary.NativeEndian.AppendUint32(b, p.Imm)
	}
	if parts&HasIETH != 0 {
		b = binary.BigEndian.AppendUint32(b, p.Invalid)
	}
	b = append(b, p.Payload...)
	return append(b, make([]byte, pad)...)
}

var errDamaged = errors.New("not a packet of RoCE")

// Parse reads a packet without its ICRC. The payload is part of b.
func Parse(b []byte) (p Packet, err error) {
	if len(b) < bthSize {
		return p, errDamaged
	}
	p.Opcode = b[0]
	op, ok := Operations[p.Op()]
	if !ok || op.Parts&HasFETH != 0 || b[1]&15 != 0 || p.Service() > ServiceUD || p.Service() == ServiceRD {
		return p, errDamaged
	}
	pad := int(b[1] >> 4 & 3)
	p.Solicited = b[1]&0x80 != 0
	p.PKey = binary.BigEndian.Uint16(b[2:])
	p.DestQPN = binary.BigEndian.Uint32(b[4:]) & mask24
	psn := binary.BigEndian.Uint32(b[8:])
	p.AckRequest, p.PSN = psn>>31 != 0, psn&mask24
	b = b[bthSize:]
	short := false
	take := func(n int) []byte {
		if len(b) < n {
			short = true
			return make([]byte, n)
		}
		head := b[:n]
		b = b[n:]
		return head
	}
	u32 := func() uint32 { return binary.BigEndian.Uint32(take(4)) }
	u64 := func() uint64 { return binary.BigEndian.Uint64(take(8)) }
	if p.Service() == ServiceUD {
		p.QKey, p.SrcQPN = u32(), u32()&mask24
	}
	if op.Parts&HasRETH != 0 {
		p.VA, p.RKey, p.Length = u64(), u32(), u32()
	}
	if op.Parts&HasAtomicETH != 0 {
		p.VA, p.RKey, p.Swap, p.Compare = u64(), u32(), u64(), u64()
	}
	if op.Parts&HasAETH != 0 {
		v := u32()
		p.Syndrome, p.MSN = byte(v>>24), v&mask24
	}
	if op.Parts&HasAtomicAckETH != 0 {
		p.Original = u64()
	}
	if op.Parts&HasImmDt != 0 {
		p.Imm = binary.NativeEndian.Uint32(take(4))
	}
	if op.Parts&HasIETH != 0 {
		p.Invalid = u32()
	}
	if short || len(b) < pad || len(b)-pad > MostPayload {
		return p, errDamaged
	}
	p.Payload = b[:len(b)-pad]
	return p, nil
}
