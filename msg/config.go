package msg

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Config refines [Dial] and [Listen]. Nil and the zero value will do. It is not
// changed, and may be shared. A negative number is refused.
type Config struct {
	// Pool has what the connection shares with others. Nil: the connection has
	// everything to itself, takes a descriptor, and a goroutine while no call waits.
	Pool *Pool

	// EagerSize is how many bytes fit into a receive buffer. Messages that fit
	// into one of the peer's are copied there; longer ones are read by the peer from the
	// sender's memory. From 64 to 1 MiB. Zero: 4096.
	EagerSize int

	// Window is how many messages the peer may have sent that were not yet received and
	// released. A program that keeps half as many stops the peer. There are as many receive
	// buffers and send buffers, and a few more.
	// From 4 to 1024. Zero: 32.
	Window int

	// MaxMessage is the longest message that is received, in bytes, from EagerSize to
	// 1 GiB. Zero: 64 MiB.
	MaxMessage int

	// Source is the local address to dial from; the zero value lets the routing table
	// decide.
	Source netip.AddrPort

	// Backlog is how many connect requests may wait in a Listener. Zero: 128.
	Backlog int
}

const (
	minWindow, maxWindow, defaultWindow = 4, 1024, 32
	minEager, maxEager, defaultEager    = 64, 1 << 20, 4096
	maxLongest, defaultLongest          = 1 << 30, 64 << 20

	rendezvous = 8  // large messages that may be under way in each direction
	controls   = 16 // frames without a buffer in the send queue
	opSlots    = 16 // one-sided operations in the send queue
)

// shape is a Config with its defaults filled in.
type shape struct {
	pool    *Pool
	eager   int
	window  int
	longest int
	source  netip.AddrPort
	backlog int
}

func (c *Config) shape() (s shape, err error) {
	if c != nil {
		s = shape{c.Pool, c.EagerSize, c.Window, c.MaxMessage, c.Source, c.Backlog}
	}
	if s.eager == 0 {
		s.eager = defaultEager
	}
	if s.window == 0 {
		s.window = defaultWindow
	}
	if s.longest == 0 {
		s.longest = max(defaultLongest, s.eager)
	}
	for _, f := range []struct {
		name            string
		is, least, most int
	}{
		{"EagerSize", s.eager, minEager, maxEager},
		{"Window", s.window, minWindow, maxWindow},
		{"MaxMessage", s.longest, s.eager, maxLongest},
	} {
		if f.is < f.least || f.is > f.most {
			return s, fmt.Errorf("%s is %d, not %d to %d: %w", "Config."+f.name, f.is, f.least, f.most, syscall.EINVAL)
		}
	}
	return s, nil
}

func (s *shape) hello() hello { return hello{uint16(s.window), uint32(s.eager), uint64(s.longest)} }

// receives are one for each credit, for the FIN of each RTS, and for a CLOSE.
func (s *shape) receives() int { return s.window + rendezvous + 1 }

// sends are as many work requests as the send queue ever holds.
func (s *shape) sends() int { return s.buffers() + controls + opSlots + 1 }

// quiet is how many messages in a row are sent without a completion.
func (s *shape) quiet() int { return min(s.window/8, 3) }

// buffers are those that small messages are sent from. Quiet messages keep theirs until a
// later one completes; the program can have a window of them all the same.
func (s *shape) buffers() int { return s.window + s.quiet() }

// stride is the size of a buffer with its header.
func (s *shape) stride() int { return (frameSize + s.eager + 63) &^ 63 }
