// Package foreign has functions of package transfer for package transfer/mooncake: peers that speak another protocol.
// They are not part of the API, because they leave it to the caller to keep the promises of package transfer.
package foreign

import (
	"context"
	"net"

	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/uverbs"
)

// Conn is the connection of a rail: an oob.Conn, or another queue pair that is connected.
type Conn interface {
	QP() *uverbs.QP
	SendCQ() *uverbs.CQ
	InitiatorDepth() int
	Err() error
	Disconnect() error
	Close() error
}

// Memory is a region. Peers may read and write it.
type Memory struct {
	Addr, Length uint64
	Keys         []uint32 // one a device
}

// Peer describes a peer to Open.
type Peer struct {
	Devices int // of the peer

	// Connect connects a rail from a device of this end to one of the peer. Slots is the number of work requests that
	// are posted at a time. An error that matches transfer.ErrStale ends the peer.
	Connect func(ctx context.Context, device, remote, slots int) (Conn, error)

	// Target is memory of the peer. Work requests of no bytes find out whether the peer's device answers. They do not
	// access it.
	Target Memory
}

// Calls has the functions. The types are pointers to those of package transfer, which this package can't import.
type Calls[Engine, TransferPeer, Region, Remote any] struct {
	// Devices returns the options of connections over the engine's devices.
	Devices func(e Engine) []*oob.Config

	// Open opens a peer at an address. find queries the peer for its description, within the time limit of the attempt.
	Open func(ctx context.Context, e Engine, address string, find func(context.Context) (*Peer, error)) (TransferPeer, error)

	// Remote returns memory of a peer for operations.
	Remote func(TransferPeer, Memory) Remote

	// Memory returns what peers need to know of a region.
	Memory func(Region) Memory

	// Serve is Engine.Serve, with a function that answers the request of a stream. The stream is closed after that, or
	// when the time for the answer is over.
	Serve func(e Engine, l net.Listener, answer func(stream net.Conn)) error

	// Go runs a function until the engine's Close, which ends ctx and waits for it. It reports false if the engine is
	// closed.
	Go func(e Engine, f func(ctx context.Context)) bool
}

var calls any

// Set sets the functions. Package transfer calls it when it is initialized.
func Set[Engine, TransferPeer, Region, Remote any](c Calls[Engine, TransferPeer, Region, Remote]) {
	calls = c
}

// Get returns the functions. A package that imports transfer calls it when it is initialized. It panics if the types
// are not those of transfer.
func Get[Engine, TransferPeer, Region, Remote any]() Calls[Engine, TransferPeer, Region, Remote] {
	return calls.(Calls[Engine, TransferPeer, Region, Remote])
}
