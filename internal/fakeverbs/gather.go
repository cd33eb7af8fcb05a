package fakeverbs

// ReadSGE reads the memory of an SGE, of which the device has made sure by LocalOK. That of the
// key of no memory is zeros.
func (qp *QP) ReadSGE(s SGE, b []byte) error {
	if qp.k.isNull(s.LKey) {
		clear(b)
		return nil
	}
	m, addr := qp.Memory(s.LKey, s.Addr)
	return m.Read(addr, b)
}

// WriteSGE writes to the memory of an SGE in the same way. What is written to no memory is
// dropped.
func (qp *QP) WriteSGE(s SGE, b []byte) error {
	if qp.k.isNull(s.LKey) {
		return nil
	}
	m, addr := qp.Memory(s.LKey, s.Addr)
	return m.Write(addr, b)
}

// isNull tells of a key that the device has it for no memory. It is told once, with the context.
func (k *Kernel) isNull(lkey uint32) bool { return lkey == k.NullKey && lkey != 0 }
