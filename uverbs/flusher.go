package uverbs

// Flusher adds completions to a CQ behind those that the device wrote.
type Flusher struct {
	cq *CQ
}

// Flush completes a work request that will never be carried out.
func (f Flusher) Flush(wrID uint64, op WCOpcode, qpn uint32) {
	f.cq.complete(WC{WRID: wrID, Opcode: op, QPN: qpn, Status: StatusWRFlushErr})
}

// Full tells that nobody polls the CQ, which holds as many completions made by
// providers as it has entries.
func (f Flusher) Full() bool { return f.cq.madeFull() }
