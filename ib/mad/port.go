package mad

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// Port sends and receives management datagrams (MADs) through one port of an adapter or a router, or
// through port 0 of a switch. Package umad implements it for the kernel and for the simulator ibsim,
// package madtest for subnets in this process. Their errors are of type *verbs.Error.
//
// Its methods may be called concurrently.
type Port interface {
	// Attr returns the state of the port that the local host knows, without sending a MAD. Each call
	// reads it again, because a subnet manager may change LID and state while the port is open.
	Attr() (PortAttr, error)

	// Register returns an agent of the port, which sends requests of one management class and
	// receives the responses.
	//
	// The error matches syscall.EBUSY if another agent of the port receives the same methods of the
	// same class. It matches errors.ErrUnsupported if the port doesn't support the class; RoCE has no
	// subnet management.
	Register(AgentConfig) (Agent, error)

	// OpenSM sets the bit IsSM in the port's CapabilityMask until the returned Closer is closed or
	// the process ends. Only one program can hold that bit at a time. While another one does, the
	// error of OpenSM matches syscall.EBUSY.
	OpenSM() (io.Closer, error)

	// Close closes the agents of the port, then the port. Blocked calls of its agents return an error
	// that matches net.ErrClosed.
	Close() error
}

// Agent sends and receives the MADs of one management class.
//
// Its methods may be called concurrently.
type Agent interface {
	// Do sends a request and returns the response. It chooses the transaction ID and sets it in a
	// copy of the request. Several requests may be outstanding. A request beyond the transport's
	// limit waits for another one to end.
	//
	// Do returns the response whatever its status is; MAD.Err turns the status into an error. The
	// error of Do matches ErrTimeout if no try got a response, ctx.Err() if the context ended first,
	// and net.ErrClosed if the agent or its port was closed.
	Do(ctx context.Context, req *Message, retry Retry) (*Message, error)

	// Send sends a MAD that expects no response: a trap, or the response to a received request, which
	// has the transaction ID of the request. It doesn't wait until the MAD has left.
	Send(ctx context.Context, m *Message) error

	// Receive waits for a request with one of the agent's methods and returns it. The agent queues at
	// least 64 requests, and may drop more than that.
	Receive(ctx context.Context) (*Message, error)

	// Close ends the agent. A second Close returns an error that matches net.ErrClosed.
	Close() error
}

// AgentConfig describes the MADs that an agent sends and receives.
type AgentConfig struct {
	Class   Class
	Version uint8 // version of the class; 0 means the current one

	// Methods is the set of methods whose requests the agent receives. If it is empty, the agent
	// receives only the responses to its own requests. A port may have several such agents of a class.
	Methods MethodMask

	// OUI is the 24-bit organization identifier of a class of vendor range 2, 0x30 to 0x4f. It is zero
	// for other classes.
	OUI uint32

	// RMPP permits messages that are longer than a MAD, up to 16 MiB. The transport splits them into
	// segments and joins them. RMPP is always on for class SA.
	RMPP bool
}

// MethodMask is a set of methods. Method m, which is below 128, is bit m%64 of word m/64.
type MethodMask [2]uint64

// Methods returns the set of the given methods. It ignores the response bit of a method.
func Methods(methods ...Method) MethodMask {
	var mask MethodMask
	for _, m := range methods {
		m &^= methodResponse
		mask[m/64] |= 1 << (m % 64)
	}
	return mask
}

// Has reports whether a method is in the set. It ignores the response bit of the method.
func (mask MethodMask) Has(m Method) bool {
	m &^= methodResponse
	return mask[m/64]&(1<<(m%64)) != 0
}

// Message is a MAD, or a message of several segments, with its address.
type Message struct {
	Addr Addr // destination of a MAD to be sent, source of a received one

	// Data is the MAD. It has 256 bytes, unless it is an RMPP message. Such a message consists of the
	// headers of its first segment and the payload of all segments, without headers between them.
	//
	// The Data of a received message has at least 256 bytes, so MAD's methods don't panic.
	Data MAD
}

// Failed returns the error of sending the message through a port of a device, or of waiting for its
// response. It names the method, the attribute and the destination. It leaves out an empty device and port 0.
func (m *Message) Failed(device string, port uint8, err error) *verbs.Error {
	e := &verbs.Error{Op: "send", Object: fmt.Sprintf("MAD of %d bytes", len(m.Data)), Device: device, Err: err}
	if len(m.Data) >= Size {
		e.Op, e.Object = m.Data.Method().String(), m.Data.attrName()
		switch {
		case m.Data.Class() == ClassDirected:
			r := Route{LID: m.Addr.LID, Hops: m.Data.InitialPath()[1:][:min(m.Data.HopCount(), MaxHops)], DrLID: m.Data.DrSLID()}
			if r.LID == PermissiveLID {
				r.LID = 0
			}
			e.Object += " at " + r.String()
		case m.Addr.GRH != nil:
			e.Object += " at GID " + m.Addr.GRH.GID.String()
		default:
			e.Object += fmt.Sprintf(" at LID %d", m.Addr.LID)
		}
	}
	if port != 0 {
		e.Object += fmt.Sprintf(" from port %d", port)
	}
	return e
}

// Addr is the other end of a MAD.
type Addr struct {
	LID       uint16 // PermissiveLID for a directed route from this port
	QPN       uint32 // 0 for subnet management, else 1 or the QPN of a redirection
	QKey      uint32 // 0 for subnet management, else QKeyGSI
	SL        uint8
	PathBits  uint8 // of the local port's LID
	PKeyIndex uint16
	GRH       *GRH // may be nil
}

// GRH is the global route header of a MAD. Routers and RoCE need it.
type GRH struct {
	GID          verbs.GID // destination of a MAD to be sent, source of a received one
	GIDIndex     uint8     // index of this port's GID
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
}

// Addresses that the specification fixes.
const (
	PermissiveLID uint16 = 0xffff // the port at the other end of the link, for directed routes
	MinMulticast  uint16 = 0xc000 // first LID of multicast groups; unicast LIDs are below

	QKeyGSI uint32 = 0x80010000 // Q_Key of QP 1
)

// Retry configures how often a request is sent, and how long each try waits for the response.
type Retry struct {
	Timeout time.Duration // of one try; 0 means DefaultTimeout
	Tries   int           // number of tries; 0 means DefaultTries
}

// The defaults of the C tools.
const (
	DefaultTimeout = time.Second
	DefaultTries   = 3
)

// ErrTimeout means that a request got no response. Its Timeout method returns true, as does
// the Timeout method of errors that match it.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "no response" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// ErrNoSMI means that a port, such as a RoCE port, has no subnet management. It
// matches errors.ErrUnsupported.
var ErrNoSMI error = noSMIError{}

type noSMIError struct{}

func (noSMIError) Error() string        { return "the port has no subnet management (SMI)" }
func (noSMIError) Is(target error) bool { return target == errors.ErrUnsupported }

// PortAttr is the state of a port that its host knows.
type PortAttr struct {
	Device     string // name of the device on this host, such as mlx5_0 or ibsim0
	Port       uint8
	NumPorts   uint8 // number of ports of the device
	DeviceType string
	Firmware   string
	Hardware   string

	NodeType   NodeType
	NodeGUID   verbs.GUID
	SystemGUID verbs.GUID // of the system image
	PortGUID   verbs.GUID

	LinkLayer string // InfiniBand, Ethernet, or IB from ibsim
	State     verbs.PortState
	PhysState verbs.PhysState
	Rate      float64 // in Gb/s
	RateText  string  // in the format of sysfs: 400 Gb/sec (4X NDR)
	LID       uint16
	LMC       uint8
	SMLID     uint16
	SMSL      uint8
	CapMask   uint32

	GIDs  []verbs.GID // by GID index, up to the last used entry
	PKeys []uint16    // by P_Key index
}
