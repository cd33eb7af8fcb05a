package rdmacm

import (
	"net/netip"
	"time"

	"github.com/goverbs/goverbs/uverbs"
)

// Config refines [Dial], [Listen] and [Request.Accept]. Nil and the zero value
// will do. It is not changed, and may be shared.
type Config struct {
	// PrivateData goes to the peer with the connect request, or with the
	// answer to one. For its limits see ConnParam.
	PrivateData []byte

	// Prepare runs when the protection domain, the completion queues and the
	// queue pair exist, and before the peer may send: the place to register
	// memory and to post receives. Its error ends the attempt. It must not
	// close the Conn, nor have anybody read SendCQ before Dial has returned:
	// over siw Dial itself does, to prove the connection, and would miss what
	// another takes (see QP). For Listener.Accept it may run for several
	// connections at a time.
	Prepare func(*Conn) error

	// PD is a protection domain to share among connections, on a device that
	// the caller has opened. It must be the device that the connection runs
	// over. Nil: each connection has its own.
	PD *uverbs.PD

	// QP describes the queue pair. Zero capacities stand for 64 work requests
	// and 1 SGE; nil CQs for CQs of the connection's own with room for all of
	// the QP's work requests; Type must be 0, RC, or, for datagrams, UD.
	//
	// With a SendCQ of the caller's Dial does not prove the connection, nor
	// where no READs are agreed on (InitiatorDepth here or ResponderResources
	// there is negative): over siw the first message after Dial may then wait
	// in the peer's kernel until another follows.
	QP uverbs.QPOptions

	// RecvCQEntries sizes the connection's own receive CQ. Zero: as many as
	// QP.Cap.MaxRecvWR, or, with an SRQ, as the SRQ has work requests.
	RecvCQEntries int

	// ResponderResources, InitiatorDepth, RetryCount and RNRRetryCount: see
	// ConnParam. Datagrams have none of this.
	ResponderResources int
	InitiatorDepth     int
	RetryCount         int
	RNRRetryCount      int

	// Source is the local address to dial from; the zero value lets the
	// routing table decide.
	Source netip.AddrPort

	// ResolveTimeout bounds one try to find the address or the route, of
	// which Dial makes three. Zero: 2 seconds. The context bounds all.
	ResolveTimeout time.Duration

	// Backlog is how many connect requests may wait in a Listener, and how many
	// Listener.Accept may be letting in; those beyond are rejected. Zero: 128.
	Backlog int

	// AcceptTimeout bounds how long Listener.Accept takes over one peer, from its
	// request to its confirmation. Zero: 30 seconds. Request.Accept has a context.
	AcceptTimeout time.Duration
}

// The defaults.
const (
	defaultWRs            = 64
	defaultResolveTimeout = 2 * time.Second
	defaultBacklog        = 128
	defaultAcceptTimeout  = 30 * time.Second
	resolveTries          = 3
)

// withDefaults returns a copy to read from.
func (c *Config) withDefaults() Config {
	var d Config
	if c != nil {
		d = *c
	}
	setDefault(&d.QP.Cap.MaxSendWR, defaultWRs)
	setDefault(&d.QP.Cap.MaxSendSGE, 1)
	if d.QP.SRQ == nil {
		setDefault(&d.QP.Cap.MaxRecvWR, defaultWRs)
		setDefault(&d.QP.Cap.MaxRecvSGE, 1)
	}
	setDefault(&d.ResolveTimeout, defaultResolveTimeout)
	setDefault(&d.Backlog, defaultBacklog)
	setDefault(&d.AcceptTimeout, defaultAcceptTimeout)
	if d.RecvCQEntries == 0 {
		d.RecvCQEntries = int(d.QP.Cap.MaxRecvWR)
		if d.QP.SRQ != nil {
			d.RecvCQEntries = int(d.QP.SRQ.MaxWR())
		}
	}
	return d
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) portSpace() PortSpace {
	if c.QP.Type == uverbs.QPTypeUD {
		return PortSpaceUDP
	}
	return PortSpaceTCP
}

func (c *Config) param() *ConnParam {
	return &ConnParam{
		PrivateData:        c.PrivateData,
		ResponderResources: c.ResponderResources,
		InitiatorDepth:     c.InitiatorDepth,
		RetryCount:         c.RetryCount,
		RNRRetryCount:      c.RNRRetryCount,
	}
}
