package valkeyrdma

import (
	"errors"
	"fmt"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config configures a connection. [Dialer] and [ListenConfig] embed it. A zero field has its
// default value. The two ends of a connection may have different values.
type Config struct {
	// AckTimeout is 1 second by default and RetryCount 6, so a connection survives an outage of up to seven seconds.
	rdmacm.TransportOptions

	// SendBuffer is the size in bytes of the buffer for data that the peer's machine has not
	// acknowledged. Write returns once all data is sent or in this buffer. The default is 256 KiB.
	// The buffer is allocated and pinned by the first Write of more than 64 bytes, which fails if there is
	// no memory to pin. Sizes below 4096 bytes or above 1 GiB are errors.
	SendBuffer int

	// RecvBuffer is the size in bytes of the buffer that the peer writes to. The connection
	// receives at most that much in a round trip. The default is 1 MiB, which is also the size of
	// Valkey's buffer for each connection. The buffer is allocated and pinned once the connection is
	// established. Sizes below 4096 bytes or above 1 GiB are errors.
	RecvBuffer int

	// MaxIdleTimeout is how long the peer's machine may be silent. After that, the connection ends with an error that
	// matches syscall.ETIMEDOUT and syscall.ECONNRESET, at most a quarter of MaxIdleTimeout late. A connection without
	// traffic stays open: it probes the peer, whose machine answers without its program. The default is 30 seconds. If
	// MaxIdleTimeout is negative, the connection never probes.
	//
	// A message for which the peer has posted no receive, because its program has stopped, also counts as unanswered.
	// A network that is down for longer than AckTimeout and RetryCount allow ends the connection sooner, except over
	// iWARP, where probes are READs.
	MaxIdleTimeout time.Duration

	// Linger is how long Close waits until the peer's machine has all data, as after SetLinger of the connection. Zero
	// stands for no wait: the data is sent in the background, for at most 10 seconds. If Linger is negative, Close
	// discards the data and resets the connection.
	Linger time.Duration
}

const (
	defaultSendBuffer = 256 << 10
	defaultRecvBuffer = 1 << 20
	defaultMaxIdle    = 30 * time.Second
	leastBuffer       = 4096
	mostBuffer        = 1 << 30
	inlineData        = 64
)

// withDefaults returns a copy in which default values replace zeros. It returns an error if a field
// is invalid.
func (cfg *Config) withDefaults() (Config, error) {
	c := *cfg
	if c.SendBuffer == 0 {
		c.SendBuffer = defaultSendBuffer
	}
	if c.RecvBuffer == 0 {
		c.RecvBuffer = defaultRecvBuffer
	}
	c.TransportOptions = netconn.WithDefaults(c.TransportOptions)
	if c.MaxIdleTimeout == 0 {
		c.MaxIdleTimeout = defaultMaxIdle
	}
	for _, n := range [...]int{c.SendBuffer, c.RecvBuffer} {
		if n < leastBuffer || n > mostBuffer {
			return c, fmt.Errorf("a buffer of %d bytes, which must have from %d to %d: %w", n, leastBuffer, mostBuffer, dialer.ErrOption)
		}
	}
	return c, nil
}

// rnrTimer is the time after which the peer repeats a notice that found no receive.
const rnrTimer = time.Millisecond

// noLimit is the RNR retry count that means no limit.
const noLimit = 7

// rdmacm returns the configuration of the queue pair. It permits one READ in each direction, as Valkey does, although
// the protocol uses none.
func (cfg *Config) rdmacm() rdmacm.Config {
	return rdmacm.Config{ResponderResources: 1, InitiatorDepth: 1, TransportOptions: cfg.TransportOptions,
		RNRRetryCount: noLimit, RNRTimer: rnrTimer, QP: uverbs.QPOptions{Cap: verbs.QPCap{
			MaxSendWR: dataSlots + controlSlots, MaxSendSGE: 2, MaxInline: inlineData, MaxRecvWR: recvs, MaxRecvSGE: 1}}}
}

// ErrProtocol is the error of a connection whose peer violated the protocol of Valkey over RDMA.
var ErrProtocol = errors.New("the peer does not keep to the protocol of Valkey over RDMA")

// violation returns an error that matches ErrProtocol and names the violated rule.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}
