package peer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// ErrOnlyCM is for devices that leave connecting to rdma_cm.
var ErrOnlyCM = errors.New("iWARP connects QPs through rdma_cm only")

// OpenDevice opens the device of a name, or without one the first with which
// prepare has no reason to be unable; prepare closes those that it refuses.
func OpenDevice[T any](name string, prepare func(*uverbs.Device) (T, error)) (none T, _ error) {
	if name != "" {
		dev, err := uverbs.Open(name)
		if err != nil {
			return none, err
		}
		return prepare(dev)
	}
	infos, err := uverbs.Devices()
	if err != nil {
		return none, err
	}
	var why []error
	for _, info := range infos {
		dev, err := info.Open()
		if err != nil {
			return none, err
		}
		e, err := prepare(dev)
		if err == nil || !unable(err) {
			return e, err
		}
		why = append(why, err)
	}
	if len(why) == 0 {
		return none, errors.New("there is no RDMA device; rdmalink add rxe0 type rxe netdev eth0 adds one")
	}
	return none, fmt.Errorf("no device can do this; rdmalink add rxe0 type rxe netdev eth0 adds one that can: %w", errors.Join(why...))
}

// unable distinguishes a device without a capability from one with an error.
func unable(err error) bool {
	return errors.Is(err, ErrOnlyCM) || errors.Is(err, verbs.ErrNoProvider) || errors.Is(err, verbs.ErrNotSupported)
}

// SourceGID chooses the local GID of a port: the one with the index of the option
// (flag) or, if the index is negative, a matching one. own is the local address of
// the TCP connection, peer an address of the peer.
func SourceGID(dev *uverbs.Device, port int, flag string, index int, own, peer netip.Addr) (gid *verbs.GIDEntry, err error) {
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

// AddrOf returns the IP address of an end of a TCP connection.
func AddrOf(end net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(end.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
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
