package oob

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config describes the queue pair of a connection and how to connect it. This package does not modify a Config,
// so it may be shared.
type Config struct {
	// PD is the protection domain of the queue pair. It must not be nil. Connections may share it. Peers that
	// share a protection domain can access each other's regions if they guess a key.
	PD *uverbs.PD

	// QP describes the queue pair. Type is RC, UC, UD or SRD; zero stands for RC. Zero capacities stand for 64 work
	// requests, 1 SGE and 48 bytes of inline data, 32 bytes on EFA. Nil CQs stand for CQs of the connection's own, with
	// room for all of the QP's work requests, and with a completion channel if the kernel offers one. If it does not,
	// as in gVisor, the CQs can only be polled.
	QP uverbs.QPOptions

	// RecvCQEntries is the size of the receive CQ that is created for the connection. Zero stands for
	// QP.Cap.MaxRecvWR or, with an SRQ, for the number of the SRQ's work requests.
	RecvCQEntries int

	// PrivateData goes to the peer, which finds it in [Conn.Remote]. It has at most [MaxPrivateData] bytes.
	// Prepare may replace it with [Conn.SetPrivateData].
	PrivateData []byte

	// Authorize is called with the peer's endpoint before the queue pair can receive from the peer. On the
	// accepting side that is before the queue pair is created. An error ends the attempt. The stream is that of
	// Dial or Accept, and nil for [Offer] and [Answer]. ctx ends with the attempt. If Authorize is nil, every peer
	// that can use the stream may connect.
	Authorize func(ctx context.Context, stream io.ReadWriteCloser, peer *Endpoint) error

	// Prepare is called once the queue pair exists, and before the peer may send. It is the place to register
	// memory and to post receives. An error ends the attempt. Prepare must not close the Conn.
	Prepare func(*Conn) error

	// PrepareQP is called before Prepare, when the queue pair is about to be created. It may change the options
	// for this connection, for instance to choose one of several CQs that connections share. An error ends the
	// attempt.
	PrepareQP func(*Conn, *uverbs.QPOptions) error

	// Port is the number of the device's port, from 1. Zero stands for 1.
	Port int

	// GID restricts the choice of the own GID. On the accepting side, the GID must also be of the peer's type and
	// address family. Nil allows any.
	GID *uverbs.GIDChoice

	// MTU is the largest path MTU that this end allows. The lower one of both ends counts. Zero stands for the
	// port's active MTU, which is also the limit. It has no meaning for SRD.
	MTU verbs.MTU

	// TransportOptions hold for the packets that this end sends. Zero stands for an AckTimeout of 67 ms. RetryCount
	// must not be negative. EFA chooses all of them itself.
	rdmacm.TransportOptions

	// Timeout limits the time of the attempt. After that, the stream is closed. Zero stands for 10 seconds. Offer
	// and Answer do not wait and ignore it.
	Timeout time.Duration
}

const (
	defaultTimeout = 10 * time.Second
	hopLimit       = 64 // a path may lead through routers
	efaInline      = 32 // bytes of inline data that all EFA devices can send
)

// Check returns the error that Dial, Accept and Listen return if a field is out of range, or PD is nil. It names the
// field. It is for programs that get their options long before they connect.
func (c *Config) Check() error {
	var why string
	switch {
	case c == nil || c.PD == nil:
		why = "Config.PD is nil"
	case c.QP.Type != 0 && !canConnect(c.QP.Type):
		return fmt.Errorf("%w: Config.QP.Type is %v; a Conn is RC, UC, UD or SRD", verbs.ErrNotSupported, c.QP.Type)
	case c.PD.Device().Info().NodeType == verbs.NodeRNIC:
		return fmt.Errorf("%w: only the connection manager connects iWARP queue pairs: use package rdmacm", verbs.ErrNotSupported)
	case c.RecvCQEntries < 0, c.Timeout < 0:
		why = "Config.RecvCQEntries or Config.Timeout is negative"
	case c.RetryCount < 0 || c.RetryCount > 7:
		why = "Config.RetryCount is not in the range from 0 to 7"
	case c.AckTimeout < 0 || c.AckTimeout > qpstate.MaxAckTimeout:
		why = fmt.Sprintf("Config.AckTimeout is not in the range from 0 to %v", qpstate.MaxAckTimeout)
	case c.MTU != 0 && c.MTU.Bytes() == 0:
		why = "Config.MTU is not one of MTU256 to MTU4096"
	case len(c.PrivateData) > MaxPrivateData:
		why = fmt.Sprintf("Config.PrivateData has %d bytes, the most is %d", len(c.PrivateData), MaxPrivateData)
	default:
		return nil
	}
	return fmt.Errorf("%s: %w", why, syscall.EINVAL)
}

// locate finds out what the peer has to know of this end, but for the queue pair. peer is nil on the side that
// dials.
func (c *Conn) locate(cfg *Config, peer *Endpoint) error {
	dev := cfg.PD.Device()
	port, err := dev.QueryPort(c.port)
	if err != nil {
		return err
	}
	gid, err := dev.ChooseGID(c.port, cfg.choice(peer))
	if err != nil {
		return err
	}
	c.gidIndex = gid.Index
	c.needsGRH = port.GRHRequired || port.LinkLayer == verbs.LinkEthernet || dev.Info().Driver == verbs.DriverEFA
	e := &c.local
	e.GID, e.GIDType, e.LID, e.MTU = gid.GID, gid.Type, port.LID, port.ActiveMTU
	if port.LinkLayer == verbs.LinkEthernet {
		e.LID = 0
	}
	if cfg.MTU != 0 {
		e.MTU = min(cfg.MTU, e.MTU)
	}
	if e.Type != verbs.QPTypeRC {
		return nil
	}
	attr, err := dev.Attr()
	if err != nil {
		return err
	}
	e.readsIn, e.readsOut = reads(attr.MaxQPRDAtom), reads(attr.MaxQPInitRDAtom)
	return nil
}

// reads fits a device's limit into a queue pair's attribute. Every device that has RC serves one READ.
func reads(limit uint32) uint8 { return uint8(min(max(limit, 1), math.MaxUint8)) }

// choice returns the choice of the own GID, which has to fit to the peer's.
func (c *Config) choice(peer *Endpoint) *uverbs.GIDChoice {
	var choice uverbs.GIDChoice
	if c.GID != nil {
		choice = *c.GID
	}
	if peer == nil || peer.GIDType == verbs.GIDTypeIB {
		return &choice
	}
	if choice.Type == verbs.GIDTypeIB {
		choice.Type = peer.GIDType
	}
	if !choice.IPv4 && !choice.IPv6 && choice.Addr == (netip.Addr{}) {
		choice.IPv4 = peer.GID.Addr().Is4()
		choice.IPv6 = !choice.IPv4
	}
	return &choice
}
