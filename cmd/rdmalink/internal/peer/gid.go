package peer

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// SourceGID picks the own GID of a port: the one with the index that was given
// (flag), or, with a negative one, one that fits. own is the own address of the TCP
// connection, peer one that the peer can be reached from.
func SourceGID(dev *uverbs.Device, port uint32, flag string, index int, own, peer netip.Addr) (gid *verbs.GIDEntry, err error) {
	if index >= 0 {
		if gid, err = dev.QueryGID(port, uint32(index)); err != nil {
			return nil, fmt.Errorf("%s %d: %w", flag, index, err)
		}
		return gid, nil
	}
	for _, choice := range gidChoices(own, peer) {
		if gid, err = dev.ChooseGID(port, &choice); !errors.Is(err, verbs.ErrNoGID) {
			break
		}
	}
	return gid, err
}

// gidChoices returns the choices in order of preference: GIDs of the peer's address
// family, if possible the one of the address that TCP uses.
func gidChoices(own, peer netip.Addr) []uverbs.GIDChoice {
	family := uverbs.GIDChoice{IPv4: peer.Is4(), IPv6: !peer.Is4()}
	if own.Is4() != peer.Is4() {
		return []uverbs.GIDChoice{family, {}}
	}
	return []uverbs.GIDChoice{{Addr: own}, family, {}}
}
