package valkeyrdma

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Config configures a connection. [Dialer] and [ListenConfig] embed it. A zero field has its
// default value. The two ends of a connection may have different values.
type Config struct {
	// SendBuffer is the size in bytes of the buffer for data that the peer's machine has not
	// acknowledged. Write returns once all data is sent or in this buffer. The default is 256 KiB.
	// Sizes below 4096 bytes or above 1 GiB are errors.
	SendBuffer int

	// RecvBuffer is the size in bytes of the buffer that the peer writes to. The connection
	// receives at most that much in a round trip. The default is 1 MiB, which is also the size of
	// Valkey's buffer for each connection. Sizes below 4096 bytes or above 1 GiB are errors.
	RecvBuffer int

	// KeepAlive is the interval at which the connection checks that the peer's machine is still
	// there. The default is 15 seconds. If it is negative, the connection never checks.
	KeepAlive time.Duration
}

const (
	defaultSendBuffer = 256 << 10
	defaultRecvBuffer = 1 << 20
	defaultKeepAlive  = 15 * time.Second
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
	if c.KeepAlive == 0 {
		c.KeepAlive = defaultKeepAlive
	}
	for _, n := range [...]int{c.SendBuffer, c.RecvBuffer} {
		if n < leastBuffer || n > mostBuffer {
			return c, fmt.Errorf("a buffer of %d bytes, which must have from %d to %d: %w", n, leastBuffer, mostBuffer, syscall.EINVAL)
		}
	}
	return c, nil
}

// With retryCount and ackTimeout a connection survives a network outage of seven seconds. Valkey's
// count is 7, but rxe treats 7 as no limit, so a connection would never notice an outage.
const (
	retryCount = 6
	ackTimeout = time.Second
)

// rnrTimer is the time after which the peer repeats a notice that found no receive.
const rnrTimer = time.Millisecond

// noLimit is the RNR retry count that means no limit.
const noLimit = 7

// rdmacm returns the configuration of the queue pair. It permits one READ in each direction, as Valkey does, although the
// protocol uses none.
func (cfg *Config) rdmacm(prepare func(*rdmacm.Conn) error) rdmacm.Config {
	return rdmacm.Config{Prepare: prepare, ResponderResources: 1, InitiatorDepth: 1, RetryCount: retryCount,
		OwnRNRRetryCount: noLimit, RNRTimer: rnrTimer, QP: uverbs.QPOptions{Cap: verbs.QPCap{
			MaxSendWR: dataSlots + controlSlots, MaxSendSGE: 2, MaxInline: inlineData, MaxRecvWR: recvs, MaxRecvSGE: 1}}}
}

// ErrProtocol is the error of a connection whose peer violated the protocol of Valkey over RDMA.
var ErrProtocol = errors.New("the peer does not keep to the protocol of Valkey over RDMA")

// violation returns an error that matches ErrProtocol and names the violated rule.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// protocol is the name of the network in addresses and errors.
const protocol = "valkeyrdma"

// Addr is the address of one end of a connection, or of a listener. It is a [net.Addr].
type Addr struct{ addr netip.AddrPort }

// Network returns "valkeyrdma".
func (Addr) Network() string { return protocol }

// String returns address and port, as in "10.0.0.1:6379" and "[fe80::1%eth0]:6379".
func (a Addr) String() string { return a.addr.String() }

// AddrPort returns address and port.
func (a Addr) AddrPort() netip.AddrPort { return a.addr }

// opError returns a *net.OpError, as connections of package net do.
func opError(op string, local, remote netip.AddrPort, err error) error {
	e := &net.OpError{Op: op, Net: protocol, Err: err}
	if local.IsValid() {
		e.Source = Addr{local}
	}
	if remote.IsValid() {
		e.Addr = Addr{remote}
	}
	return e
}
