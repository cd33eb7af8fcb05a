package flow

import "github.com/goverbs/goverbs/internal/abi"

// VXLAN is a VXLAN header. Headers behind it are inner ones.
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

// GREFields are those of a GRE header. Flags are its first 16 bits, with the version.
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

// ESP is an ESP header, of IPsec.
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

// ESPFields are those of an ESP header.
//
// C: struct ibv_flow_esp_filter
type ESPFields struct{ SPI, Seq uint32 }

func (f *ESPFields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowSpecEspFilter{Spi: be32(f.SPI), Seq: be32(f.Seq)})
}
