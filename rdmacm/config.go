package rdmacm

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config refines [Dial], [Listen] and [Request.Accept]. Nil and the zero value
// will do. It is not changed, and may be shared.
//
// One rule holds for all numbers and durations: zero stands for a default, which the
// field's comment names. A negative number stands for none in ResponderResources,
// InitiatorDepth, RetryCount and RNRRetryCount, where none is a choice, and is
// refused in all others.
type Config struct {
	// PrivateData goes to the peer with the connect request, or with the
	// answer to one. For its limits see ConnParam. Prepare may put other data in its
	// place with Conn.SetPrivateData.
	PrivateData []byte

	// Prepare runs when the protection domain, the completion queues and the
	// queue pair exist, and before the peer may send: the place to register
	// memory and to post receives. Its error ends the attempt. It must not
	// close the Conn, nor have anybody read SendCQ before Dial has returned:
	// over siw Dial itself does, to prove the connection, and would miss what
	// another takes (see QP). For Listener.Accept it may run for several
	// connections at a time. It must not close the Listener, whose Close waits
	// for it.
	Prepare func(*Conn) error

	// PrepareQP runs before Prepare, when the protection domain exists and the queue pair
	// is about to be made, and may change what QP says for this connection: one of several
	// CQs that connections share, for instance. Its error ends the attempt.
	PrepareQP func(*Conn, *uverbs.QPOptions) error

	// PD is a protection domain to share among connections, on a device that
	// the caller has opened. It must be the device that the connection runs
	// over. Nil: each connection has its own, on the device of QP's CQs if QP
	// names one, else on a device that rdmacm opens and connections share.
	PD *uverbs.PD

	// QP describes the queue pair. Zero capacities stand for 64 work requests,
	// 1 SGE and 48 bytes of inline data; nil CQs for CQs of the connection's own with room for all of
	// the QP's work requests; Type must be 0, RC, or, for datagrams, UD.
	//
	// CQs of its own take a connection two file descriptors, from Dial or Accept
	// to Close; nothing else does. A program with thousands of connections names
	// SendCQ and RecvCQ, which any number of them may share: see the example.
	// SRQs and CQs must be on one device, and on PD's. An SRQ needs PD or a CQ.
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

	// Resolver looks up the names in the addresses of Dial and Listen. Nil: net.DefaultResolver.
	Resolver *net.Resolver

	// FallbackDelay is how long Dial gives the first address family of a name
	// before it tries the other too. Zero: 300 ms. Prepare may then run for two
	// connections at a time, one of which Dial closes.
	FallbackDelay time.Duration

	// TOS is the IPv4 type of service or IPv6 traffic class of what a connection
	// from Dial sends, and on RoCE of what it receives. Zero: the default of the
	// device or the system.
	TOS uint8

	// AckTimeout is how long a queue pair from Dial waits for an acknowledgement
	// before it sends again: 4.096 µs times 2 to its power, of at most 31. Zero: as
	// long as the path's life time asks for. iWARP leaves this to TCP.
	AckTimeout uint8

	// ResolveTimeout bounds one try to find the address or the route, of
	// which Dial makes three. Zero: 2 seconds. The context bounds all.
	ResolveTimeout time.Duration

	// Backlog is how many connect requests may wait in a Listener, and how many
	// Listener.Accept may be letting in; those beyond are rejected. An address may have a
	// quarter of those being let in, but no less than 8; when the queue is full, the
	// newest request of the address that has most is rejected. Zero: 128.
	Backlog int

	// AcceptTimeout bounds how long Listener.Accept takes over one peer, from its
	// request to its confirmation. Zero: 30 seconds. Request.Accept has a context.
	AcceptTimeout time.Duration

	// ConfirmTimeout bounds how long Listener.Accept waits for a peer's confirmation, the
	// third message of a handshake. A kernel repeats a lost message after 4 seconds. While
	// other peers wait, a tenth of it is all that is certain. Zero: 10 seconds.
	ConfirmTimeout time.Duration
}

// The defaults.
const (
	defaultWRs            = 64
	defaultInline         = 48 // siw and rxe have room for so much in any case
	defaultResolveTimeout = 2 * time.Second
	defaultBacklog        = 128
	defaultAcceptTimeout  = 30 * time.Second
	defaultConfirmTimeout = 10 * time.Second
	resolveTries          = 3
)

// check refuses negative numbers that mean nothing, and an SRQ without a device to
// look for it on.
func (c *Config) check(op, object string) error {
	if c == nil {
		return nil
	}
	if c.QP.SRQ != nil && c.ownDevice() == nil {
		return &OpError{Op: op, Object: object, Err: syscall.EINVAL, Hint: "Config.QP.SRQ needs Config.PD, or a CQ of the SRQ's device"}
	}
	switch c.QP.Type {
	case 0, verbs.QPTypeRC, verbs.QPTypeUD:
	default:
		return &OpError{Op: op, Object: object, Err: verbs.ErrNotSupported, Hint: fmt.Sprintf("Config.QP.Type is %v; a Conn is RC or UD", c.QP.Type)}
	}
	for name, n := range map[string]int64{"RecvCQEntries": int64(c.RecvCQEntries), "Backlog": int64(c.Backlog),
		"FallbackDelay": int64(c.FallbackDelay), "ResolveTimeout": int64(c.ResolveTimeout), "AcceptTimeout": int64(c.AcceptTimeout),
		"ConfirmTimeout": int64(c.ConfirmTimeout)} {
		if n < 0 {
			return &OpError{Op: op, Object: object, Err: syscall.EINVAL, Hint: "Config." + name + " is negative"}
		}
	}
	return nil
}

// ownDevice is the caller's device, or nil when the Config names nothing of one.
func (c *Config) ownDevice() *uverbs.Device {
	switch {
	case c.PD != nil:
		return c.PD.Device()
	case c.QP.SendCQ != nil:
		return c.QP.SendCQ.Device()
	case c.QP.RecvCQ != nil:
		return c.QP.RecvCQ.Device()
	}
	return nil
}

// withDefaults returns a copy to read from.
func (c *Config) withDefaults() Config {
	var d Config
	if c != nil {
		d = *c
	}
	setDefault(&d.QP.Cap.MaxSendWR, defaultWRs)
	setDefault(&d.QP.Cap.MaxSendSGE, 1)
	setDefault(&d.QP.Cap.MaxInline, defaultInline)
	if d.QP.SRQ == nil {
		setDefault(&d.QP.Cap.MaxRecvWR, defaultWRs)
		setDefault(&d.QP.Cap.MaxRecvSGE, 1)
	}
	setDefault(&d.Resolver, net.DefaultResolver)
	setDefault(&d.FallbackDelay, dialer.DefaultDelay)
	setDefault(&d.ResolveTimeout, defaultResolveTimeout)
	setDefault(&d.Backlog, defaultBacklog)
	setDefault(&d.AcceptTimeout, defaultAcceptTimeout)
	setDefault(&d.ConfirmTimeout, defaultConfirmTimeout)
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

// setOptions tells the kernel before it resolves the address.
func (c *Config) setOptions(id *ID) error {
	if c.TOS != 0 {
		if err := id.SetTOS(c.TOS); err != nil {
			return err
		}
	}
	if c.AckTimeout != 0 {
		return id.SetAckTimeout(c.AckTimeout)
	}
	return nil
}

func (c *Config) portSpace() verbs.PortSpace {
	if c.QP.Type == verbs.QPTypeUD {
		return verbs.PortSpaceUDP
	}
	return verbs.PortSpaceTCP
}

func (c *Config) param(private []byte) *ConnParam {
	return &ConnParam{
		PrivateData:        private,
		ResponderResources: c.ResponderResources,
		InitiatorDepth:     c.InitiatorDepth,
		RetryCount:         c.RetryCount,
		RNRRetryCount:      c.RNRRetryCount,
	}
}
