package rsocket

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/dialer"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Dialer dials with options. The zero value will do.
type Dialer struct {
	// Timeout bounds a dial, all addresses of a name together. Zero: no bound but the
	// context's, Deadline and those of the kernel.
	Timeout time.Duration
	// Deadline is when a dial gives up. Zero: never.
	Deadline time.Time
	// LocalAddr is the address to dial from. The zero value lets the routing table
	// decide; port 0 lets the kernel choose.
	LocalAddr netip.AddrPort
	// KeepAlive is the time between looks whether the peer is still there. Zero: 15
	// seconds. Negative: none.
	KeepAlive time.Duration
	// Sizes of the connection.
	Sizes Sizes
}

const defaultKeepAlive = 15 * time.Second

// Dial connects to an address such as "10.0.0.1:7471" or "host:7471".
func Dial(network, address string) (net.Conn, error) { return new(Dialer).Dial(network, address) }

// DialContext is [Dial] with a context, which bounds the dial and not the connection.
func DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return new(Dialer).DialContext(ctx, network, address)
}

// Dial is [Dialer.DialContext] without a context.
func (d *Dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialContext connects to an address. It tries a name's addresses in turn. Where they are
// of both families, it tries those of the other family 300 ms later beside the first
// one's, or as soon as these have failed, and takes the connection that stands first.
// network is "rsocket" or "tcp", with a 4 or a 6 behind it if only addresses of
// that family will do; so this is a function that takes the place of a net.Dialer's. The
// connection is a *Conn. Errors are of type *net.OpError.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !d.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, d.Deadline)
		defer cancel()
	}
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	sizes, err := d.Sizes.withDefaults()
	if err != nil {
		return nil, opError("dial", d.LocalAddr, netip.AddrPort{}, err)
	}
	addrs, err := resolve(ctx, network, address)
	if err != nil {
		return nil, opError("dial", d.LocalAddr, netip.AddrPort{}, err)
	}
	return d.dialAll(ctx, addrs, &sizes)
}

// dialAll tries the addresses of a name.
func (d *Dialer) dialAll(ctx context.Context, addrs []netip.AddrPort, z *Sizes) (net.Conn, error) {
	try := func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		c, err := d.dial(ctx, addr, z)
		if err != nil {
			return nil, opError("dial", d.LocalAddr, addr, err)
		}
		return c, nil
	}
	if len(addrs) == 1 {
		return try(ctx, addrs[0])
	}
	c, err := dialer.Soonest(ctx, addrs, dialer.DefaultDelay, try)
	if err != nil {
		return nil, opError("dial", d.LocalAddr, netip.AddrPort{}, err)
	}
	return c, nil
}

func (d *Dialer) dial(ctx context.Context, addr netip.AddrPort, z *Sizes) (*Conn, error) {
	c := newConn()
	cfg := z.config()
	cfg.Source = d.LocalAddr
	cfg.Prepare = func(rc *rdmacm.Conn) error {
		if err := c.verbs.prepare(rc, z); err != nil {
			return err
		}
		rc.SetPrivateData(c.verbs.hello(z).marshal())
		return nil
	}
	rc, err := rdmacm.DialAddrPort(ctx, addr, &cfg)
	if err != nil {
		return nil, err
	}
	peer, err := parseHello(rc.PrivateData())
	if err != nil {
		_ = rc.Close()
		return nil, err
	}
	c.begin(rc, peer, z, true, keepAlive(d.KeepAlive))
	return c, nil
}

func keepAlive(d time.Duration) time.Duration {
	if d == 0 {
		return defaultKeepAlive
	}
	return d
}

// resolve finds the addresses of host and port that the network allows.
func resolve(ctx context.Context, net_, address string) ([]netip.AddrPort, error) {
	family, ok := strings.CutPrefix(net_, network)
	if !ok {
		family, ok = strings.CutPrefix(net_, "tcp")
	}
	if !ok || family != "" && family != "4" && family != "6" {
		return nil, net.UnknownNetworkError(net_)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip"+family, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return addrs, nil
}

const network = "rsocket"

// Addr is the address of one end of a connection, or of a listener. It is a [net.Addr].
type Addr struct{ addr netip.AddrPort }

// Network returns "rsocket".
func (Addr) Network() string { return network }

// String returns address and port, as in "10.0.0.1:7471" and "[fe80::1%eth0]:7471".
func (a Addr) String() string { return a.addr.String() }

// AddrPort returns address and port.
func (a Addr) AddrPort() netip.AddrPort { return a.addr }

// Sizes are what a connection has of its own. A field that is 0 stands for the default
// of librdmacm. The two ends may differ.
type Sizes struct {
	// SendBuffer and RecvBuffer are in bytes. Write returns when all is in the send
	// buffer or sent; the peer may send as much as the receive buffer holds before it
	// is read. 0: 128 KiB. Less than 4096 is refused, and so is an odd RecvBuffer.
	SendBuffer, RecvBuffer int
	// SendQueue and RecvQueue are how many messages of data may be under way or wait
	// to be read: a Write is one message, or one for each 64 KiB. 0: 384. Less than 16
	// is refused, and so is more than 65534.
	SendQueue, RecvQueue int
	// Mappings is how much memory at a time the peer may have this end write to with
	// WriteAt, in calls of its Map or riomap. 0: none. More than 128 is refused.
	Mappings int
}

const (
	defaultBuffer = 128 << 10
	defaultQueue  = 384
	leastBuffer   = 4096
	leastQueue    = 16
	mostQueue     = 65534
	mostBuffer    = 1 << 30
	mostMappings  = 128 // more are told in units of 256
	inlineData    = 64
)

func (z *Sizes) withDefaults() (Sizes, error) {
	s := *z
	for _, p := range []*int{&s.SendBuffer, &s.RecvBuffer} {
		if *p == 0 {
			*p = defaultBuffer
		}
		if *p < leastBuffer || *p > mostBuffer {
			return s, syscall.EINVAL
		}
	}
	for _, p := range []*int{&s.SendQueue, &s.RecvQueue} {
		if *p == 0 {
			*p = defaultQueue
		}
		if *p < leastQueue || *p > mostQueue {
			return s, syscall.EINVAL
		}
	}
	if s.RecvBuffer%2 != 0 || s.Mappings < 0 || s.Mappings > mostMappings {
		return s, syscall.EINVAL
	}
	return s, nil
}

// retryCount is how often an unacknowledged packet is sent again. rxe takes 7, librdmacm's
// choice, for without end: a network that is gone would end no connection.
const retryCount = 6

// ackTimeout is 4.096 µs times 2^18, a second. With retryCount a network may be gone for seven.
const ackTimeout = 18

// config describes the queue pair.
func (z *Sizes) config() rdmacm.Config {
	return rdmacm.Config{RetryCount: retryCount, AckTimeout: ackTimeout, QP: uverbs.QPOptions{Cap: verbs.QPCap{
		MaxSendWR: uint32(z.SendQueue + spareSlots), MaxSendSGE: 2, MaxInline: inlineData,
		MaxRecvWR: uint32(z.RecvQueue + spareRecvs), MaxRecvSGE: 1}}}
}
