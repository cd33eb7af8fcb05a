package msg

import (
	"cmp"
	"fmt"
	"math/bits"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/rdmacm"
)

// Config describes a connection. [Dialer] and [ListenConfig] embed it. The zero value is
// valid. This package does not modify a Config, so it may be shared. Only MaxIdleTimeout,
// Linger and RetryCount may be negative.
type Config struct {
	// AckTimeout is 1 second by default and RetryCount 6, so a connection survives an outage of up to seven seconds.
	rdmacm.TransportOptions

	// Pool provides the resources that the connection shares with others. Nil means
	// that the connection has its own resources. It then uses a file descriptor
	// and, while no call waits, a goroutine.
	Pool *Pool

	// EagerSize is the size of a receive buffer in bytes, without headers. Messages
	// that fit into a receive buffer of the peer are copied there. The peer reads
	// longer ones from the sender's memory. It must be from 64 bytes to 1 MiB. Zero
	// stands for 4096.
	EagerSize int

	// Window is how many messages the peer may have sent that this side has not
	// received and released. If the program keeps half of them, the peer can't send any
	// more. The connection has this many receive buffers and send buffers, and a few
	// more. The number must be from 4 to 1024. Zero stands for 32.
	Window int

	// MaxMessage is the maximum length of a received message in bytes, from EagerSize
	// to 1 GiB. Zero stands for 4 MiB, or for EagerSize if that is more.
	MaxMessage int

	// MaxMemory limits the memory of received large messages in bytes. Large messages
	// are longer than EagerSize. The length of each, rounded up to a power of two,
	// counts from the time when its first byte is read until Release. Free buffers that
	// are kept for reuse count too. While there is no room for a message, it waits at
	// the sender, and so do all later messages of its connection. A connection without
	// a pool has its own limit. The connections of a pool share the MaxMemory of the
	// Config that was passed to NewPool. If a peer stalls a message for 5 seconds while
	// other connections of the pool wait for room, its connection is closed. MaxMemory
	// must be at least MaxMessage, rounded up to a power of two. Zero stands for 64
	// MiB, or for twice that minimum if it is more.
	MaxMemory int

	// MaxIdleTimeout is how long the peer's machine may be silent. After that, the
	// connection ends with an error that matches syscall.ETIMEDOUT, at most a quarter of
	// MaxIdleTimeout late. A connection without traffic stays open: it probes the peer,
	// whose machine answers without its program. The same check ends the connection if
	// a READ of a large message takes 30 seconds or more. Zero stands for 30 seconds. If
	// MaxIdleTimeout is negative, the connection never checks. A one-sided operation
	// that takes longer counts as silence. A network that is down for longer than
	// AckTimeout and RetryCount allow ends the connection sooner, except over iWARP.
	MaxIdleTimeout time.Duration

	// Linger is how long Close waits until the peer has received everything, as after
	// Conn.SetLinger. Zero stands for no wait: messages are delivered in the background,
	// for at most 10 seconds. If Linger is negative, Close discards them and resets the
	// connection.
	Linger time.Duration
}

const (
	minWindow, maxWindow, defaultWindow = 4, 1024, 32
	minEager, maxEager, defaultEager    = 64, 1 << 20, 4096
	maxLongest, defaultLongest          = 1 << 30, 4 << 20
	defaultMemory                       = 64 << 20
	defaultMaxIdle                      = 30 * time.Second

	// RetryCount could be 7, but rxe treats 7 as no limit, so no connection would end if the network failed.
	retryCount = 6
	ackTimeout = time.Second

	rendezvous = 8  // limit of announced large messages in each direction
	controls   = 16 // frames without a buffer in the send queue
	opSlots    = 64 // one-sided operations in the send queue, a power of two
)

// shape is a Config with its defaults filled in.
type shape struct {
	pool      *Pool
	eager     int
	window    int
	longest   int
	memory    uint64 // of large messages, outside a pool
	maxIdle   time.Duration
	linger    time.Duration
	transport rdmacm.TransportOptions
}

func (c *Config) shape() (s shape, err error) {
	memory := 0
	if c != nil {
		s = shape{pool: c.Pool, eager: c.EagerSize, window: c.Window, longest: c.MaxMessage,
			maxIdle: c.MaxIdleTimeout, linger: c.Linger, transport: c.TransportOptions}
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
	s.transport.AckTimeout = cmp.Or(s.transport.AckTimeout, ackTimeout)
	s.transport.RetryCount = cmp.Or(s.transport.RetryCount, retryCount)
	if s.maxIdle == 0 {
		s.maxIdle = defaultMaxIdle
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
			return s, fmt.Errorf("%s is %d, want %d to %d: %w", "Config."+f.name, f.is, f.least, f.most, dialer.ErrOption)
		}
	}
	least := uint64(1) << classOf(s.longest)
	if s.pool != nil && s.pool.budget.most < least {
		return s, fmt.Errorf("Config.MaxMessage is %d, too large for the pool's MaxMemory of %d bytes: %w", s.longest, s.pool.budget.most, dialer.ErrOption)
	}
	switch s.memory = uint64(memory); {
	case memory == 0:
		s.memory = max(defaultMemory, 2*least)
	case memory < 0 || s.memory < least:
		return s, fmt.Errorf("Config.MaxMemory is %d, but a message of %d bytes needs at least %d: %w", memory, s.longest, least, dialer.ErrOption)
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

// checkTime returns the time between two checks of the watchdog. It is negative if there are none.
func (s *shape) checkTime() time.Duration {
	if s.maxIdle < 0 {
		return -1
	}
	return max(s.maxIdle/mostIdle, 1)
}

func (s *shape) hello() hello { return hello{uint16(s.window), uint32(s.eager), uint64(s.longest)} }

// receives returns the size of the receive queue. There is a receive for each credit,
// for the FIN of each RTS, and for a CLOSE.
func (s *shape) receives() int { return s.window + rendezvous + 1 }

// sends returns the size of the send queue. Besides the numbered work requests it holds
// a READ of a large message and a keep-alive.
func (s *shape) sends() int { return s.buffers() + controls + opSlots + 2 }

// maxUnsignaled returns how many messages in a row are sent unsignaled.
func (s *shape) maxUnsignaled() int { return min(s.window/8, 3) }

// buffers returns the number of small send buffers. Unsignaled messages keep theirs
// until a later message completes. The number leaves a whole window of buffers to
// the program.
func (s *shape) buffers() int { return s.window + s.maxUnsignaled() }

// stride returns the size of a buffer with its header.
func (s *shape) stride() int { return (frameSize + s.eager + 63) &^ 63 }
