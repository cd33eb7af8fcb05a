package siw

// Idle: when Fail returns, all work requests have completed.
func (q *qp) Idle() bool { return q.failed }
