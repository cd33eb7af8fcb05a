package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/uverbs"
)

// sourceGID picks the own GID: the one of -g, or one that fits. own is the own
// address of the TCP connection, peer one that the peer can be reached from.
func (p *pingpong) sourceGID(e *pingpongEnd, own, peer netip.Addr) (gid *uverbs.GIDEntry, err error) {
	if p.gid >= 0 {
		if gid, err = e.dev.QueryGID(uint32(p.ibPort), uint32(p.gid)); err != nil {
			return nil, fmt.Errorf("-g %d: %w", p.gid, err)
		}
		return gid, nil
	}
	if !e.port.GRHRequired {
		return &uverbs.GIDEntry{}, nil // InfiniBand has its LID
	}
	for _, choice := range gidChoices(own, peer) {
		if gid, err = e.dev.ChooseGID(uint32(p.ibPort), &choice); !errors.Is(err, uverbs.ErrNoGID) {
			break
		}
	}
	return gid, err
}

// gidChoices are the choices from the best to the last: of the peer's address
// family, if possible what TCP uses.
func gidChoices(own, peer netip.Addr) []uverbs.GIDChoice {
	family := uverbs.GIDChoice{IPv4: peer.Is4(), IPv6: !peer.Is4()}
	if own.Is4() != peer.Is4() {
		return []uverbs.GIDChoice{family, {}}
	}
	return []uverbs.GIDChoice{{Addr: own}, family, {}}
}
