package flow

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
)

// Spec is a part of a flow rule: a header to match or an action. A header matches if it equals Val
// in the bits that are set in Mask. Inner means a header of the packet inside a tunnel. Numbers
// are in the machine's byte order.
//
// C: struct ibv_flow_spec
type Spec interface {
	// AppendSpec appends the spec in the kernel's format.
	AppendSpec(b []byte) []byte
}

// The types of specs, as the kernel numbers them.
// C: enum ib_flow_spec_type
const (
	specEth   = 0x20
	specIPv4  = 0x30
	specIPv6  = 0x31
	specESP   = 0x34
	specTCP   = 0x40
	specUDP   = 0x41
	specVXLAN = 0x50
	specGRE   = 0x51
	specMPLS  = 0x60
	specInner = 0x100
	specTag   = 0x1000
	specDrop  = 0x1001
)

// appendSpec appends a type, a length and the parts of a spec.
func appendSpec(b []byte, typ uint32, inner bool, parts ...[]byte) []byte {
	if inner {
		typ |= specInner
	}
	hdr := abi.IbUverbsFlowSpecHdr{Type: typ, Size: 8}
	for _, p := range parts {
		hdr.Size += uint16(len(p))
	}
	b = append(b, abi.Bytes(&hdr)...)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// Eth is an Ethernet header.
//
// C: struct ibv_flow_spec_eth
type Eth struct {
	Val, Mask EthFields
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *Eth) AppendSpec(b []byte) []byte {
	return appendSpec(b, specEth, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// be16 and be32 convert a number to big-endian order.
func be16(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// EthFields has the fields of an Ethernet header.
//
// C: struct ibv_flow_eth_filter
type EthFields struct {
	DstMAC, SrcMAC     [6]byte
	EtherType, VLANTag uint16
}

func (f *EthFields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowEthFilter{DstMac: f.DstMAC, SrcMac: f.SrcMAC, EtherType: be16(f.EtherType), VlanTag: be16(f.VLANTag)})
}

// IPv4 is an IPv4 header.
//
// C: struct ibv_flow_spec_ipv4_ext
type IPv4 struct {
	Val, Mask IPv4Fields
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *IPv4) AppendSpec(b []byte) []byte {
	return appendSpec(b, specIPv4, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// IPv4Fields has the fields of an IPv4 header.
//
// C: struct ibv_flow_ipv4_ext_filter
type IPv4Fields struct {
	Src, Dst               [4]byte
	Proto, TOS, TTL, Flags uint8
}

func (f *IPv4Fields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowIpv4Filter{SrcIp: binary.NativeEndian.Uint32(f.Src[:]), DstIp: binary.NativeEndian.Uint32(f.Dst[:]),
		Proto: f.Proto, Tos: f.TOS, Ttl: f.TTL, Flags: f.Flags})
}

// IPv6 is an IPv6 header.
//
// C: struct ibv_flow_spec_ipv6
type IPv6 struct {
	Val, Mask IPv6Fields
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *IPv6) AppendSpec(b []byte) []byte {
	return appendSpec(b, specIPv6, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

func be32(v uint32) uint32 {
	return binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, v))
}

// IPv6Fields has the fields of an IPv6 header.
//
// C: struct ibv_flow_ipv6_filter
type IPv6Fields struct {
	Src, Dst                           [16]byte
	FlowLabel                          uint32 // 20 bits
	NextHeader, TrafficClass, HopLimit uint8
}

func (f *IPv6Fields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowIpv6Filter{SrcIp: f.Src, DstIp: f.Dst, FlowLabel: be32(f.FlowLabel),
		NextHdr: f.NextHeader, TrafficClass: f.TrafficClass, HopLimit: f.HopLimit})
}

// TCP is a TCP header.
//
// C: struct ibv_flow_spec_tcp_udp
type TCP struct {
	Val, Mask Ports
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *TCP) AppendSpec(b []byte) []byte {
	return appendSpec(b, specTCP, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// UDP is a UDP header.
//
// C: struct ibv_flow_spec_tcp_udp
type UDP struct {
	Val, Mask Ports
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *UDP) AppendSpec(b []byte) []byte {
	return appendSpec(b, specUDP, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// Ports has the ports of a TCP or UDP header.
//
// C: struct ibv_flow_tcp_udp_filter
type Ports struct{ Dst, Src uint16 }

func (f *Ports) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowTcpUdpFilter{DstPort: be16(f.Dst), SrcPort: be16(f.Src)})
}

// VXLAN is a VXLAN header. The headers that follow it are inner ones.
//
// C: struct ibv_flow_spec_tunnel
type VXLAN struct{ Val, Mask uint32 } // the VNI, 24 bits

// AppendSpec implements [Spec].
func (s *VXLAN) AppendSpec(b []byte) []byte {
	return appendSpec(b, specVXLAN, false, abi.Bytes(&abi.IbUverbsFlowTunnelFilter{TunnelId: be32(s.Val)}),
		abi.Bytes(&abi.IbUverbsFlowTunnelFilter{TunnelId: be32(s.Mask)}))
}

// GRE is a GRE header.
//
// C: struct ibv_flow_spec_gre
type GRE struct {
	Val, Mask GREFields
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *GRE) AppendSpec(b []byte) []byte {
	return appendSpec(b, specGRE, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// GREFields has the fields of a GRE header. Flags are its first 16 bits, including the version.
//
// C: struct ibv_flow_gre_filter
type GREFields struct {
	Flags, Protocol uint16
	Key             uint32
}

func (f *GREFields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowGreFilter{CKsRes0Ver: be16(f.Flags), Protocol: be16(f.Protocol), Key: be32(f.Key)})
}

// MPLS is an MPLS label, with its traffic class, bottom bit and TTL.
//
// C: struct ibv_flow_spec_mpls
type MPLS struct {
	Val, Mask uint32
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *MPLS) AppendSpec(b []byte) []byte {
	return appendSpec(b, specMPLS, s.Inner, abi.Bytes(&abi.IbUverbsFlowMplsFilter{Label: be32(s.Val)}),
		abi.Bytes(&abi.IbUverbsFlowMplsFilter{Label: be32(s.Mask)}))
}

// ESP is an ESP header of IPsec.
//
// C: struct ibv_flow_spec_esp
type ESP struct {
	Val, Mask ESPFields
	Inner     bool
}

// AppendSpec implements [Spec].
func (s *ESP) AppendSpec(b []byte) []byte {
	return appendSpec(b, specESP, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// ESPFields has the fields of an ESP header.
//
// C: struct ibv_flow_esp_filter
type ESPFields struct{ SPI, Seq uint32 }

func (f *ESPFields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowSpecEspFilter{Spi: be32(f.SPI), Seq: be32(f.Seq)})
}
