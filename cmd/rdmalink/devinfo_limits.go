package main

import (
	"fmt"
	"strings"
)

// limits adds what the device can do, and how much.
func (s *subject) limits(t *table) {
	if s.attr == nil || s.Details == 0 {
		return
	}
	a := s.attr
	t.add("num_comp_vectors", s.dev.CompVectors())
	t.add("max_mr_size", fmt.Sprintf("0x%x", a.MaxMRSize))
	t.add("page_size_cap", fmt.Sprintf("0x%x", a.PageSizeCap))
	for _, l := range []struct {
		name string
		most uint32
	}{
		{"max_qp", a.MaxQP}, {"max_qp_wr", a.MaxQPWR}, {"max_sge", a.MaxSGE}, {"max_sge_rd", a.MaxSGERead},
		{"max_cq", a.MaxCQ}, {"max_cqe", a.MaxCQE}, {"max_mr", a.MaxMR}, {"max_pd", a.MaxPD}, {"max_mw", a.MaxMW}, {"max_ah", a.MaxAH},
		{"max_qp_rd_atom", a.MaxQPRDAtom}, {"max_res_rd_atom", a.MaxResRDAtom}, {"max_qp_init_rd_atom", a.MaxQPInitRDAtom},
		{"max_srq", a.MaxSRQ}, {"max_srq_wr", a.MaxSRQWR}, {"max_srq_sge", a.MaxSRQSGE},
		{"max_mcast_grp", a.MaxMcastGrp}, {"max_mcast_qp_attach", a.MaxMcastQPAttach}, {"max_total_mcast_qp_attach", a.MaxTotalMcastQPAttach},
		{"max_pkeys", uint32(a.MaxPKeys)}, {"local_ca_ack_delay", uint32(a.LocalCAAckDelay)},
	} {
		t.add(l.name, l.most)
	}
	t.add("atomic_cap", atomicCap(a.AtomicCap))
	t.add("device_cap_flags", fmt.Sprintf("0x%x", uint64(a.CapFlags)))
	t.add("device_caps", bitList(a.CapFlags))
	t.add("general_odp_caps", bitList(a.ODP.General))
	t.add("rc_odp_caps", bitList(a.ODP.RC))
	t.add("uc_odp_caps", bitList(a.ODP.UC))
	t.add("ud_odp_caps", bitList(a.ODP.UD))
	t.add("xrc_odp_caps", bitList(a.ODP.XRC))
	t.add("completion_timestamp_mask", fmt.Sprintf("0x%016x", a.TimestampMask))
	t.addUnit("hca_core_clock", a.HCACoreClock, unitKHz)
	t.addUnit("max_dm_size", a.MaxDMSize, unitBytes)
	t.add("max_cq_count", a.CQModerationMaxCount)
	t.addUnit("max_cq_period", uint64(a.CQModerationMaxPeriod), unitUsec)
	t.add("rss_supported_qp", fmt.Sprintf("0x%x", a.RSS.SupportedQPTypes))
	t.add("max_rwq_indirection_tables", a.RSS.MaxIndirectionTables)
	t.add("max_rwq_indirection_table_size", a.RSS.MaxIndirectionTableSize)
	t.add("max_wq_type_rq", a.MaxWQTypeRQ)
	t.add("raw_packet_caps", fmt.Sprintf("0x%x", a.RawPacketCaps))
	t.add("max_num_tags", a.TagMatching.MaxTags)
	if a.TagMatching.MaxTags > 0 {
		t.addUnit("max_rndv_hdr_size", uint64(a.TagMatching.MaxRndvHdrSize), unitBytes)
		t.add("tag_matching_flags", fmt.Sprintf("0x%x", a.TagMatching.Flags))
		t.add("tag_matching_max_ops", a.TagMatching.MaxOps)
		t.add("tag_matching_max_sge", a.TagMatching.MaxSGE)
	}
}

// atomicCap has C's names, as ibv_devinfo does.
func atomicCap(v uint32) string {
	switch v {
	case 0:
		return "ATOMIC_NONE"
	case 1:
		return "ATOMIC_HCA"
	case 2:
		return "ATOMIC_GLOB"
	}
	return fmt.Sprintf("AtomicCap(%d)", v)
}

// bitList takes the names of a set apart.
func bitList(set fmt.Stringer) nameList {
	if s := set.String(); s != "0" {
		return strings.Split(s, "|")
	}
	return nameList{}
}
