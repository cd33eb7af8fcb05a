package perftest

import "context"

// Begin is called before each size, when receives are posted, and waits for
// the peer where the test needs that. Of some tests it does nothing: the
// server of ib_write_lat writes when it likes, and the client waits for that.
func (s *Session) Begin(ctx context.Context) error {
	if s.test.Verb == Send || !s.test.Latency && s.test.Bidirectional {
		return s.sync(ctx, "word that this size begins")
	}
	return nil
}

// End is called after each size with what this end found. It returns what the
// peer found, or nil if the ends of this test keep that to themselves.
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

// Finish is called after the last size, or at an idle server (ServerIdle) at
// once. Of ib_{write,read,atomic}_bw in one direction own is the report of the
// last size, and what comes back the client's; else it is nil.
//
// C: ctx_close_connection
func (s *Session) Finish(ctx context.Context, own Report) (*Report, error) {
	if s.test.Latency && s.test.Verb == Write {
		return nil, nil // ib_write_lat goes without a word
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
