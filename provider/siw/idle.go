package siw

// Idle implements driver.Idler. All work requests have completed when Flush returns.
func (q *qp) Idle() bool { return q.failed }
