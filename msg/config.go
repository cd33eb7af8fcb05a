package msg

import (
	"fmt"
	"math/bits"
	"net/netip"
	"syscall"
	"time"
)

// Config refines [Dial] and [Listen]. Nil and the zero value will do. It is not
// changed, and may be shared. A negative number is refused, except in KeepAlive.
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
	// 1 GiB. Zero: 4 MiB, or EagerSize if that is more.
	MaxMessage int

	// MaxMemory is how many bytes of memory large messages may take that are received: those
	// longer than EagerSize, from the first byte that is read to Release. Buffers that are
	// kept to be used again count too. Each message takes its length, rounded up to a power
	// of two. While there is no room for one, it waits at the sender, and so does all that
	// was sent after it on its connection. A connection outside a pool has this
	// for itself. The connections of a pool share what the Config of NewPool says.
	// At least MaxMessage, rounded up. Zero: 64 MiB, or twice that least if that is more.
	MaxMemory int

	// KeepAlive is how long a connection may be idle before it looks whether the peer is
	// still there. A peer that takes 30 seconds and more to hand out a piece of a large
	// message is found at the same time. Zero: 15 seconds. Negative: never.
	KeepAlive time.Duration

	// Source is the local address to dial from; the zero value lets the routing table
	// decide.
	Source netip.AddrPort

	// Backlog is how many connect requests may wait in a Listener. Zero: 128.
	Backlog int
}

const (
	minWindow, maxWindow, defaultWindow = 4, 1024, 32
	minEager, maxEager, defaultEager    = 64, 1 << 20, 4096
	maxLongest, defaultLongest          = 1 << 30, 4 << 20
	defaultMemory                       = 64 << 20
	defaultKeepAlive                    = 15 * time.Second

	rendezvous = 8  // large messages that may be under way in each direction
	controls   = 16 // frames without a buffer in the send queue
	opSlots    = 16 // one-sided operations in the send queue
)

// shape is a Config with its defaults filled in.
type shape struct {
	pool      *Pool
	eager     int
	window    int
	longest   int
	memory    uint64 // of large messages, outside a pool
	keepAlive time.Duration
	source    netip.AddrPort
	backlog   int
}

func (c *Config) shape() (s shape, err error) {
	memory := 0
	if c != nil {
		s = shape{pool: c.Pool, eager: c.EagerSize, window: c.Window, longest: c.MaxMessage,
			keepAlive: c.KeepAlive, source: c.Source, backlog: c.Backlog}
		memory = c.MaxMemory
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
	if s.keepAlive == 0 {
		s.keepAlive = defaultKeepAlive
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
	least := uint64(1) << classOf(s.longest)
	if s.pool != nil && s.pool.budget.most < least {
		return s, fmt.Errorf("Config.MaxMessage is %d, for which the pool's MaxMemory of %d bytes is too small: %w", s.longest, s.pool.budget.most, syscall.EINVAL)
	}
	switch s.memory = uint64(memory); {
	case memory == 0:
		s.memory = max(defaultMemory, 2*least)
	case memory < 0 || s.memory < least:
		return s, fmt.Errorf("Config.MaxMemory is %d, not %d or more, which a message of %d bytes takes: %w", memory, least, s.longest, syscall.EINVAL)
	}
	return s, nil
}

// classOf returns the size class of the buffer for a large message of n bytes. The
// buffers of class k have 2^k bytes.
func classOf(n int) int { return bits.Len(uint(n - 1)) }

// budget returns the budget that the memory of large messages counts towards.
func (s *shape) budget() *budget {
	if s.pool != nil {
		return &s.pool.budget
	}
	return &budget{most: s.memory}
}

func (s *shape) hello() hello { return hello{uint16(s.window), uint32(s.eager), uint64(s.longest)} }

// receives returns the size of the receive queue: one for each credit, for the FIN of
// each RTS, and for a CLOSE.
func (s *shape) receives() int { return s.window + rendezvous + 1 }

// sends returns the size of the send queue. Besides the numbered work requests it holds
// a READ of a large message and a keep-alive.
func (s *shape) sends() int { return s.buffers() + controls + opSlots + 2 }

// maxUnsignaled returns how many messages in a row are sent unsignaled.
func (s *shape) maxUnsignaled() int { return min(s.window/8, 3) }

// buffers returns the number of small send buffers. Unsignaled messages keep theirs
// until a later message completes. The program can have a window of buffers all the
// same.
func (s *shape) buffers() int { return s.window + s.maxUnsignaled() }

// stride returns the size of a buffer with its header.
func (s *shape) stride() int { return (frameSize + s.eager + 63) &^ 63 }
