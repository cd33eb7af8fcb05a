package devinfo

import (
	"fmt"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/table"
	"github.com/goverbs/goverbs/verbs"
)

// limits adds the capabilities and limits of the device.
func (s *subject) limits(t *table.Table) {
	if s.attr == nil || !s.details {
		return
	}
	a := s.attr
	t.Add("num_comp_vectors", s.dev.CompVectors())
	t.Add("max_mr_size", fmt.Sprintf("0x%x", a.MaxMRSize))
	t.Add("page_size_cap", fmt.Sprintf("0x%x", a.PageSizeCap))
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
		t.Add(l.name, l.most)
	}
	t.Add("atomic_cap", atomicCap(a.AtomicCap))
	t.Add("device_cap_flags", fmt.Sprintf("0x%x", uint64(a.CapFlags)))
	t.Add("device_caps", bitList(a.CapFlags))
	t.Add("general_odp_caps", bitList(a.ODP.General))
	t.Add("rc_odp_caps", bitList(a.ODP.RC))
	t.Add("uc_odp_caps", bitList(a.ODP.UC))
	t.Add("ud_odp_caps", bitList(a.ODP.UD))
	t.Add("xrc_odp_caps", bitList(a.ODP.XRC))
	t.Add("completion_timestamp_mask", fmt.Sprintf("0x%016x", a.TimestampMask))
	t.AddUnit("hca_core_clock", a.HCACoreClock, table.KHz)
	t.AddUnit("max_dm_size", a.MaxDMSize, table.Bytes)
	t.Add("max_cq_count", a.CQModerationMaxCount)
	t.AddUnit("max_cq_period", uint64(a.CQModerationMaxPeriod), table.Usec)
	t.Add("rss_supported_qp", fmt.Sprintf("0x%x", a.RSS.SupportedQPTypes))
	t.Add("max_rwq_indirection_tables", a.RSS.MaxIndirectionTables)
	t.Add("max_rwq_indirection_table_size", a.RSS.MaxIndirectionTableSize)
	t.Add("max_wq_type_rq", a.MaxWQTypeRQ)
	t.Add("raw_packet_caps", fmt.Sprintf("0x%x", a.RawPacketCaps))
	t.Add("max_num_tags", a.TagMatching.MaxTags)
	if a.TagMatching.MaxTags > 0 {
		t.AddUnit("max_rndv_hdr_size", uint64(a.TagMatching.MaxRndvHdrSize), table.Bytes)
		t.Add("tag_matching_flags", fmt.Sprintf("0x%x", a.TagMatching.Flags))
		t.Add("tag_matching_max_ops", a.TagMatching.MaxOps)
		t.Add("tag_matching_max_sge", a.TagMatching.MaxSGE)
	}
}

// atomicCap has C's names, as ibv_devinfo does.
func atomicCap(c verbs.AtomicCap) string {
	switch c {
	case verbs.AtomicNone:
		return "ATOMIC_NONE"
	case verbs.AtomicHCA:
		return "ATOMIC_HCA"
	case verbs.AtomicGlobal:
		return "ATOMIC_GLOB"
	}
	return c.String()
}

// bitList takes the names of a set apart.
func bitList(set fmt.Stringer) table.Names {
	if s := set.String(); s != "0" {
		return strings.Split(s, "|")
	}
	return table.Names{}
}
