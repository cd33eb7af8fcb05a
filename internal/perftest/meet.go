package perftest

import (
	"context"
	"errors"
	"fmt"
)

// Meet sends the peer the addresses of all QPs and returns the peer's, which are as many.
func (s *Session) Meet(ctx context.Context, own []Endpoint) ([]Endpoint, error) {
	if len(own) == 0 {
		return nil, errors.New("no QP to meet the peer with")
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	s.own = own
	if s.test.swapsFirstTwice() {
		if _, err := s.exchange(ctx, "the address of QP 1", own[0]); err != nil {
			return nil, err
		}
	}
	var err error
	s.their, err = s.exchangeAll(ctx)
	return s.their, err
}

func (s *Session) exchangeAll(ctx context.Context) ([]Endpoint, error) {
	their := make([]Endpoint, len(s.own))
	for i, own := range s.own {
		var err error
		if their[i], err = s.exchange(ctx, fmt.Sprintf("the address of QP %d of %d", i+1, len(s.own)), own); err != nil {
			return nil, err
		}
	}
	return their, nil
}

// Ready reports to the peer that the QPs are connected, and waits until the peer's are.
func (s *Session) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	if s.test.Verb == Send {
		if err := s.sync(ctx, "word that the QPs are connected"); err != nil {
			return err
		}
		return s.again(ctx)
	}
	if err := s.again(ctx); err != nil {
		return err
	}
	return s.sync(ctx, "word that the QPs are connected")
}

// again swaps all addresses a second time. C prints these.
func (s *Session) again(ctx context.Context) error {
	their, err := s.exchangeAll(ctx)
	if err != nil {
		return err
	}
	for i, e := range their {
		if err := s.same(e, i); err != nil {
			return s.explain(ctx, "receive", "the addresses again", err)
		}
	}
	return nil
}

// sync waits for the peer by swapping the first QP's address.
func (s *Session) sync(ctx context.Context, what string) error {
	e, err := s.exchange(ctx, what, s.own[0])
	if err != nil {
		return err
	}
	return s.explain(ctx, "receive", what, s.same(e, 0))
}

// same checks that the ends are at the same message. A QP of DC has its number only when it is connected.
func (s *Session) same(e Endpoint, i int) error {
	if s.their[i].QPN == 0 {
		s.their[i] = e
	}
	if e.QPN != s.their[i].QPN {
		return fmt.Errorf("got the address of QP %#x, want %#x, the peer's QP %d of %d; -q must be the same",
			e.QPN, s.their[i].QPN, i+1, len(s.their))
	}
	return nil
}
