package verbs

// SRQAttr is the state of an SRQ.
//
// C: struct ibv_srq_attr
type SRQAttr struct {
	MaxWR, MaxSGE uint32
	Limit         uint32 // as last set; some drivers put it to 0 when the event was raised
}
