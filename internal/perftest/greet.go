package perftest

import "context"

// Greet sends the peer this System and returns the one that both ends use: the
// larger CycleBuffer and CacheLine, the smaller MTU, and the peer's Version.
//
// C: exchange_versions, check_version_compatibility, check_sys_data, check_mtu
func (s *Session) Greet(ctx context.Context, own System) (agreed System, err error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	var peer System
	if peer.Version, err = ask(ctx, s, "the version", appendVersion(nil, own.Version), parseVersion); err != nil {
		return System{}, err
	}
	s.ch = s.ch.forPeer(peer.Version)
	if peer.CycleBuffer, err = ask(ctx, s, "the page size", appendStep(nil, own.CycleBuffer), parseStep); err != nil {
		return System{}, err
	}
	if peer.CacheLine, err = ask(ctx, s, "the size of a cache line", appendStep(nil, own.CacheLine), parseStep); err != nil {
		return System{}, err
	}
	if peer.MTU, err = ask(ctx, s, "the MTU", appendMTU(nil, own.MTU), parseMTU); err != nil {
		return System{}, err
	}
	return own.agree(peer), nil
}

// ask swaps a message and decodes the peer's.
func ask[T any](ctx context.Context, s *Session, what string, own []byte, parse func([]byte) (T, error)) (value T, err error) {
	their, err := s.swap(ctx, what, own)
	if err != nil {
		return value, err
	}
	value, err = parse(their)
	return value, s.explain(ctx, "receive", what, err)
}

// SyncCM waits for the peer before the QPs of the test are connected (-R): a
// server listens when it has returned, a client asks for the connections, and
// again after a refusal, which means that the server was slower. It waits once more
// when all are connected.
func (s *Session) SyncCM(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	_, err := s.exchange(ctx, "word around the connecting of QPs", Endpoint{})
	return err
}
