package rdmacm

import (
	"fmt"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config describes the queue pair of a connection and how to connect it. [Dialer] and
// [ListenConfig] embed it; [Request.Accept] and [OpenUD] take a pointer, which may be nil.
// The zero value is valid. This package does not modify a Config, so it may be shared.
//
// Zero stands for a default, which the field's comment names. A negative number stands
// for none in ResponderResources, InitiatorDepth, RetryCount and PeerRNRRetryCount, and is
// an error in RecvCQEntries.
type Config struct {
	// PrivateData goes to the peer with the connect request, or with the answer to one.
	// See [ConnParam] for its limits. Prepare may replace it with [Conn.SetPrivateData].
	PrivateData []byte

	// Prepare is called once the protection domain, the completion queues and the queue
	// pair exist, and before the peer may send. It is the place to register memory and
	// to post receives. An error ends the attempt. Prepare must not close the Conn. It
	// must not let anything poll SendCQ before Dial has returned: over siw, Dial polls
	// SendCQ itself to prove the connection. Listener.Accept may call Prepare for
	// several connections at a time. It must not close the Listener, whose Close waits
	// for it.
	Prepare func(*Conn) error

	// PrepareQP is called before Prepare, when the protection domain exists and the queue
	// pair is about to be created. It may change the options for this connection, for
	// instance to choose one of several CQs that connections share. An error ends the
	// attempt.
	PrepareQP func(*Conn, *uverbs.QPOptions) error

	// PD is a protection domain that connections share, on a device that the caller has
	// opened. It must be the device that the connection runs over. If PD is nil, each
	// connection has its own, on the device of QP's CQs if QP names one, and otherwise
	// on a device that rdmacm opens and connections share.
	PD *uverbs.PD

	// QP describes the queue pair. Zero capacities stand for 64 work requests, 1 SGE and
	// 48 bytes of inline data. Nil CQs stand for CQs of the connection's own, with room
	// for all of the QP's work requests. Type must be 0, RC or, for datagrams, UD.
	//
	// A connection with its own CQs uses two file descriptors from Dial or Accept to
	// Close. Otherwise a connection uses none. A program with thousands of connections
	// sets SendCQ and RecvCQ, which any number of connections may share: see the
	// example. SRQs and CQs must be on one device, which must be PD's. An SRQ needs PD
	// or a CQ.
	//
	// Dial does not prove the connection if the caller provides SendCQ, or if the sides
	// agree on no READs (a negative InitiatorDepth here or ResponderResources there).
	// Over siw, the first message after Dial may then wait in the peer's kernel until
	// another one follows.
	QP uverbs.QPOptions

	// RecvCQEntries is the size of the receive CQ that is created for the connection. Zero
	// stands for QP.Cap.MaxRecvWR or, with an SRQ, for the number of the SRQ's work
	// requests.
	RecvCQEntries int

	TransportOptions

	// See ConnParam. Datagrams use none of these.
	ResponderResources int
	InitiatorDepth     int
	PeerRNRRetryCount  int

	// RNRRetryCount is how often this end sends a message again if the peer has posted no
	// receive for it, from 1 to 7, where 7 stands for no limit. Zero stands for the peer's
	// PeerRNRRetryCount. On rxe, RetryCount is also a limit unless it is 7: see ConnParam. iWARP and
	// datagrams ignore it.
	RNRRetryCount int

	// RNRTimer is how long the peer waits before it sends a message again if this end has
	// posted no receive for it. It is rounded up to the next value that queue pairs have,
	// from 10 µs to 655.36 ms. A longer one is an error. Zero stands for 655.36 ms, which
	// is the kernel's choice. iWARP and datagrams ignore it.
	RNRTimer time.Duration
}

// TransportOptions are the options of the packets of a connection. Its zero fields stand for defaults. [Config] embeds
// it, and so do the Configs of packages rsocket, msg and valkeyrdma, which have defaults of their own.
type TransportOptions struct {
	// AckTimeout is how long this end waits for an acknowledgement before it sends a packet again. It is rounded up to
	// the next value that queue pairs have: 4.096 µs times a power of two, from 8.192 µs to 2 hours, 26 minutes and 36
	// seconds. A longer one is an error, and so is a negative one. Zero stands for a value that fits the lifetime of
	// packets on the path. iWARP ignores it, because TCP has its own timeouts. So do datagrams.
	AckTimeout time.Duration

	// RetryCount is how often an unacknowledged packet is sent again, from 1 to 7. The dialling side sets it for both
	// ends. Zero stands for 7, and a negative number for no retries. On rxe, 7 stands for no limit: an operation whose
	// peer has vanished then never fails by itself. iWARP has none, and datagrams are not acknowledged. See
	// [ConnParam].
	RetryCount int

	// TOS is the IPv4 type of service or IPv6 traffic class of packets. Over RoCE, the dialling side sets it for both
	// ends. Over iWARP, each side sets its own. Zero stands for the default of the device or the system.
	TOS uint8

	// Trace, unless it is nil, is called while connections are set up and when they end. Package oob does not call it.
	Trace *Trace
}

// check returns an error for negative numbers without a meaning, and for an SRQ without a
// PD or CQ, because the device is unknown then.
func (c *Config) check(op, object string) error {
	if c == nil {
		return nil
	}
	if c.QP.SRQ != nil && c.ownDevice() == nil {
		return &verbs.Error{Op: op, Object: object, Err: dialer.ErrOption, Hint: "Config.QP.SRQ needs Config.PD, or a CQ of the SRQ's device"}
	}
	switch c.QP.Type {
	case 0, verbs.QPTypeRC, verbs.QPTypeUD:
	default:
		return &verbs.Error{Op: op, Object: object, Err: verbs.ErrNotSupported, Hint: fmt.Sprintf("Config.QP.Type is %v; a Conn is RC or UD", c.QP.Type)}
	}
	if c.RNRRetryCount > 7 || c.RNRTimer > qpstate.MaxRNRTimer {
		return &verbs.Error{Op: op, Object: object, Err: dialer.ErrOption, Hint: fmt.Sprintf("Config.RNRRetryCount is above 7, or Config.RNRTimer above %v", qpstate.MaxRNRTimer)}
	}
	if c.AckTimeout > qpstate.MaxAckTimeout {
		return &verbs.Error{Op: op, Object: object, Err: dialer.ErrOption, Hint: "Config.AckTimeout is too long"}
	}
	return notNegative(op, object, option{"Config.AckTimeout", int64(c.AckTimeout)}, option{"Config.RecvCQEntries", int64(c.RecvCQEntries)},
		option{"Config.RNRRetryCount", int64(c.RNRRetryCount)}, option{"Config.RNRTimer", int64(c.RNRTimer)})
}

// option is a number that a caller has set, and its name.
type option struct {
	name  string
	value int64
}

// notNegative returns an error that names the first negative option.
func notNegative(op, object string, options ...option) error {
	for _, o := range options {
		if o.value < 0 {
			return &verbs.Error{Op: op, Object: object, Err: dialer.ErrOption, Hint: o.name + " is negative"}
		}
	}
	return nil
}

// ownDevice returns the device that the caller's PD or CQs are on, or nil if there are none.
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

// withDefaults returns a copy in which defaults replace zeros. c may be nil.
func (c *Config) withDefaults() Config {
	var d Config
	if c != nil {
		d = *c
	}
	conn.SetDefaults(&d.QP, &d.RecvCQEntries)
	return d
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
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
		RNRRetryCount:      c.PeerRNRRetryCount,
	}
}
