package perftest

import "context"

// Begin waits for the peer if the test needs that. It must be called before each
// size, after receives were posted. In some tests it does nothing: the server of
// ib_write_lat may write at any time, and its client waits for the write.
func (s *Session) Begin(ctx context.Context) error {
	if s.test.Verb == Send || !s.test.Latency && s.test.Bidirectional {
		return s.sync(ctx, "word that this size begins")
	}
	return nil
}

// End must be called after each size with this end's report. It returns the peer's
// report, or nil if the ends of this test do not exchange reports.
func (s *Session) End(ctx context.Context, own Report) (*Report, error) {
	if s.test.Latency || s.test.Verb != Send && !s.test.Bidirectional {
		return nil, nil
	}
	const what = "word that this size is done"
	oneSided := s.test.Verb == Write || s.test.Verb == Read
	if s.test.AllSizes && oneSided {
		if err := s.sync(ctx, what); err != nil {
			return nil, err
		}
	}
	var peer *Report
	if s.test.Bidirectional && !(s.test.Verb == Send && s.test.Duration) {
		r, err := s.report(ctx, own)
		if err != nil {
			return nil, err
		}
		peer = &r
	}
	if s.test.AllSizes && s.test.Verb == Send {
		return peer, s.sync(ctx, what)
	}
	return peer, nil
}

// Finish must be called after the last size, or at once at an idle server
// (ServerIdle). For ib_{write,read,atomic}_bw in one direction, own is the report
// of the last size, and Finish returns the client's; else own is nil.
//
// C: ctx_close_connection
func (s *Session) Finish(ctx context.Context, own Report) (*Report, error) {
	if s.test.Latency && s.test.Verb == Write {
		return nil, nil // ib_write_lat ends without a message
	}
	var peer *Report
	if !s.test.Latency && s.test.ServerIdle() {
		if err := s.sync(ctx, "word that the test is done"); err != nil {
			return nil, err
		}
		r, err := s.report(ctx, own)
		if err != nil {
			return nil, err
		}
		peer = &r
	}
	if err := s.sync(ctx, "goodbye"); err != nil {
		return nil, err
	}
	s.ch.last(ctx)
	return peer, nil
}

// report swaps reports, a field at a time.
//
// C: xchg_bw_reports
func (s *Session) report(ctx context.Context, own Report) (Report, error) {
	var their [reportFields]uint64
	for i, w := range own.words() {
		var err error
		if their[i], err = ask(ctx, s, "the bandwidth report", appendWord(nil, w), parseWord); err != nil {
			return Report{}, err
		}
	}
	return reportOf(their), nil
}
