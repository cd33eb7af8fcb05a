package mad

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/goverbs/goverbs/verbs"
)

// Port sends and receives management datagrams (MADs) by one port of an adapter, of a router, or by
// port 0 of a switch. It is the seam between programs and what carries their datagrams: the kernel
// (package umad), the simulator ibsim (also package umad), or a subnet in this process.
//
// Its methods can be called from several goroutines at a time.
type Port interface {
	// Attr returns the state of the port as its own host knows it, without a MAD. It is read anew
	// at each call, because a subnet manager changes LID and state while the port is open.
	Attr() (PortAttr, error)

	// Register returns an agent of the port: the sender of requests of one management class, and
	// the receiver of their answers.
	//
	// It fails with an error that matches syscall.EBUSY if another agent of the port receives the
	// same methods of the same class, and with one that matches errors.ErrUnsupported if the port
	// has no such class: RoCE has no subnet management.
	Register(AgentConfig) (Agent, error)

	// OpenSM sets the bit IsSM in the port's CapabilityMask until the returned Closer is closed or
	// the process ends. A port has one holder of that bit. OpenSM fails with an error that matches
	// syscall.EBUSY while there is another.
	OpenSM() (io.Closer, error)

	// Close closes the agents of the port, then the port. Calls that are blocked in one of its
	// agents return an error that matches net.ErrClosed.
	Close() error
}

// Agent sends and receives the MADs of one management class.
//
// Its methods can be called from several goroutines at a time.
type Agent interface {
	// Do sends a request and returns the response to it. It sets the transaction ID itself, in a
	// copy of the request: several requests may be under way. Those beyond the transport's limit
	// wait for their turn.
	//
	// Do returns the response whatever its status is; StatusError has that. It returns an error
	// that matches ErrTimeout if no response came to any try, one that matches ctx.Err() if the
	// context ended before, and one that matches net.ErrClosed if the agent or its port was closed.
	Do(ctx context.Context, req *Message, retry Retry) (*Message, error)

	// Send sends a MAD that has no answer: the response to a received request, with the transaction
	// ID of that request, or a trap. It doesn't wait until the MAD has left.
	Send(ctx context.Context, m *Message) error

	// Receive returns the next request that the agent's method mask selects. The agent keeps at
	// least 64 requests that nobody has received yet, and may drop those beyond.
	Receive(ctx context.Context) (*Message, error)

	// Close ends the agent. A second Close returns an error that matches net.ErrClosed.
	Close() error
}

// AgentConfig describes the MADs that an agent sends and receives.
type AgentConfig struct {
	Class   Class
	Version uint8 // of the class; 0 means the current version

	// Methods has the requests that the agent receives, as bits of their method numbers. An agent
	// without any only receives the responses to its own requests, and may exist beside others of
	// the same class.
	Methods MethodMask

	// OUI is the 24-bit organization of a class of vendor range 2, 0x30 to 0x4f, and zero for other
	// classes.
	OUI uint32

	// RMPP lets messages of the agent be longer than a MAD, up to 16 MiB: the transport cuts them
	// into segments and joins them. Class SA always has it.
	RMPP bool
}

// MethodMask is a set of methods: bit m%64 of word m/64 is method m, where m is below 128.
type MethodMask [2]uint64

// Methods returns the set of the given methods. The response bit of a method is ignored.
func Methods(methods ...Method) MethodMask {
	var mask MethodMask
	for _, m := range methods {
		m &^= methodResponse
		mask[m/64] |= 1 << (m % 64)
	}
	return mask
}

// Has reports whether a method is in the set. The response bit of a method is ignored.
func (mask MethodMask) Has(m Method) bool {
	m &^= methodResponse
	return mask[m/64]&(1<<(m%64)) != 0
}

// Message is a MAD, or a message of several segments, with its address.
type Message struct {
	Addr Addr // destination of a MAD to be sent, source of a received one

	// Data is the MAD, 256 bytes. A message by RMPP is longer: it has the headers of its first
	// segment, then the payload of all segments without a header between.
	//
	// The Data of a received message has at least 256 bytes, so that MAD's methods may be called.
	Data MAD
}

// Addr is the other end of a MAD.
type Addr struct {
	LID       uint16 // PermissiveLID: a directed route from this port
	QPN       uint32 // 0 for subnet management, else 1, or that of a redirection
	QKey      uint32 // 0 for subnet management, else QKeyGSI
	SL        uint8
	PathBits  uint8 // of the other port's LID
	PKeyIndex uint16
	GRH       *GRH // nil: none
}

// GRH is the global route of a MAD, which routers and RoCE need.
type GRH struct {
	GID          verbs.GID // destination of a MAD to be sent, source of a received one
	GIDIndex     uint8     // of this port's GID
	HopLimit     uint8
	TrafficClass uint8
	FlowLabel    uint32 // 20 bits
}

// Addresses that the specification fixes.
const (
	PermissiveLID uint16 = 0xffff // the port at the other end of the link, for directed routes
	MinMulticast  uint16 = 0xc000 // first LID of multicast groups; unicast LIDs are below
	MaxMulticast  uint16 = 0xfffe

	QKeyGSI uint32 = 0x80010000 // Q_Key of QP 1
)

// Retry is how long and how often a request is tried.
type Retry struct {
	Timeout time.Duration // of one try; 0 means DefaultTimeout
	Tries   int           // 0 means DefaultTries
}

// What the C tools use, too.
const (
	DefaultTimeout = time.Second
	DefaultTries   = 3
)

// ErrTimeout is matched by the error of a request without a response. Such errors have a method
// Timeout that returns true.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "no response" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// ErrNoSMI is matched by the error of subnet management on a port that has none, as those of RoCE.
// It matches errors.ErrUnsupported.
var ErrNoSMI error = noSMIError{}

type noSMIError struct{}

func (noSMIError) Error() string        { return "the port has no subnet management (SMI)" }
func (noSMIError) Is(target error) bool { return target == errors.ErrUnsupported }

// PortAttr is the state of a port as its own host knows it.
type PortAttr struct {
	Device     string // of this host: mlx5_0, ibsim0
	Port       uint8
	NumPorts   uint8 // of the device
	DeviceType string
	Firmware   string
	Hardware   string

	NodeType   NodeType
	NodeGUID   verbs.GUID
	SystemGUID verbs.GUID // of the system image
	PortGUID   verbs.GUID

	LinkLayer string // InfiniBand, Ethernet, or IB, as ibsim names it
	State     verbs.PortState
	PhysState verbs.PhysState
	Rate      float64 // in Gb/s
	RateText  string  // as sysfs has it: 400 Gb/sec (4X NDR)
	LID       uint16
	LMC       uint8
	SMLID     uint16
	SMSL      uint8
	CapMask   uint32

	GIDs  []verbs.GID // the used slots up to the last
	PKeys []uint16    // the table, by P_Key index
}
