package uverbs

import "github.com/goverbs/goverbs/internal/abi"

// FlowVXLAN is a VXLAN header. Headers behind it are inner ones.
//
// C: struct ibv_flow_spec_tunnel
type FlowVXLAN struct{ Val, Mask uint32 } // the VNI, 24 bits

func (s *FlowVXLAN) append(b []byte) []byte {
	return appendSpec(b, specVXLAN, false, abi.Bytes(&abi.IbUverbsFlowTunnelFilter{TunnelId: be32(s.Val)}),
		abi.Bytes(&abi.IbUverbsFlowTunnelFilter{TunnelId: be32(s.Mask)}))
}

// FlowGRE is a GRE header.
//
// C: struct ibv_flow_spec_gre
type FlowGRE struct {
	Val, Mask FlowGREFields
	Inner     bool
}

// FlowGREFields are those of a GRE header. Flags are its first 16 bits, with the version.
//
// C: struct ibv_flow_gre_filter
type FlowGREFields struct {
	Flags, Protocol uint16
	Key             uint32
}

func (f *FlowGREFields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowGreFilter{CKsRes0Ver: be16(f.Flags), Protocol: be16(f.Protocol), Key: be32(f.Key)})
}

func (s *FlowGRE) append(b []byte) []byte {
	return appendSpec(b, specGRE, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// FlowMPLS is an MPLS label, with its traffic class, bottom bit and TTL.
//
// C: struct ibv_flow_spec_mpls
type FlowMPLS struct {
	Val, Mask uint32
	Inner     bool
}

func (s *FlowMPLS) append(b []byte) []byte {
	return appendSpec(b, specMPLS, s.Inner, abi.Bytes(&abi.IbUverbsFlowMplsFilter{Label: be32(s.Val)}),
		abi.Bytes(&abi.IbUverbsFlowMplsFilter{Label: be32(s.Mask)}))
}

// FlowESP is an ESP header, of IPsec.
//
// C: struct ibv_flow_spec_esp
type FlowESP struct {
	Val, Mask FlowESPFields
	Inner     bool
}

// FlowESPFields are those of an ESP header.
//
// C: struct ibv_flow_esp_filter
type FlowESPFields struct{ SPI, Seq uint32 }

func (f *FlowESPFields) bytes() []byte {
	return abi.Bytes(&abi.IbUverbsFlowSpecEspFilter{Spi: be32(f.SPI), Seq: be32(f.Seq)})
}

func (s *FlowESP) append(b []byte) []byte {
	return appendSpec(b, specESP, s.Inner, s.Val.bytes(), s.Mask.bytes())
}

// FlowTag has the completions of what matches carry a number.
//
// C: struct ibv_flow_spec_action_tag
type FlowTag uint32

func (t FlowTag) append(b []byte) []byte {
	v := [2]uint32{uint32(t), 0}
	return appendSpec(b, specTag, false, abi.Bytes(&v))
}

// FlowDrop drops what matches.
//
// C: struct ibv_flow_spec_action_drop
type FlowDrop struct{}

func (FlowDrop) append(b []byte) []byte { return appendSpec(b, specDrop, false) }

// FlowCount counts what matches.
//
// C: struct ibv_flow_spec_counter_action
type FlowCount struct{ Counters *Counters }

func (s *FlowCount) append(b []byte) []byte {
	v := [2]uint32{s.Counters.handle, 0}
	return appendSpec(b, specCount, false, abi.Bytes(&v))
}
