package cm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/rdmacm"
)

// channel is an event channel with a goroutine that forwards each event to its
// connection.
type channel struct {
	*rdmacm.EventChannel
	stopped chan struct{}
	err     error // why it stopped; read it after stopped

	mu      sync.Mutex
	conns   map[*rdmacm.ID]*conn
	request func(*rdmacm.Event) // called for each connect request; must not block
}

func openChannel() (*channel, error) {
	ch, err := rdmacm.NewEventChannel()
	if err != nil {
		return nil, err
	}
	c := &channel{EventChannel: ch, stopped: make(chan struct{}), conns: make(map[*rdmacm.ID]*conn)}
	go c.run()
	return c, nil
}

func (c *channel) run() {
	defer close(c.stopped)
	for {
		ev, err := c.Get(context.Background())
		if err != nil {
			c.err = err
			return
		}
		c.deal(ev)
		ev.Ack()
	}
}

// deal forwards an event. A connection's channel has room for all events that a
// connection can get.
func (c *channel) deal(ev *rdmacm.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ev.Type == rdmacm.EventConnectRequest {
		c.request(ev)
		return
	}
	if conn := c.conns[ev.ID]; conn != nil {
		select {
		case conn.events <- ev:
		default:
		}
	}
}

// add starts to forward the events of conn's ID to conn.
func (c *channel) add(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn.id] = conn
}

func (c *channel) remove(conn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn.id)
}

// close closes the event channel and waits for its goroutine, which must not call it.
func (c *channel) close() error {
	err := c.Close()
	if err == nil {
		<-c.stopped
	}
	return err
}

// listen creates the listening IDs, one for each address family. Their connect requests
// go to the function request.
func (s *session) listen(ctx context.Context, c *channel, request func(*rdmacm.Event)) (ids []*rdmacm.ID, err error) {
	addrs, err := s.listenAddrs(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.request = request
	c.mu.Unlock()
	for i, addr := range addrs {
		id, err := s.listenOn(c, addr)
		switch {
		case err == nil:
			ids = append(ids, id)
		case i == 0 || !noIPv6(err):
			return nil, errors.Join(err, destroy(ids))
		}
	}
	return ids, nil
}

func (s *session) listenOn(c *channel, addr netip.AddrPort) (*rdmacm.ID, error) {
	id, err := c.NewID(s.portSpace, s.qpType)
	if err != nil {
		return nil, err
	}
	if err = id.SetAFOnly(true); err == nil {
		if err = id.Bind(addr); err == nil {
			err = id.Listen(0)
		}
	}
	if err != nil {
		return nil, errors.Join(err, id.Destroy())
	}
	return id, nil
}

// noIPv6 reports whether a kernel without IPv6 refused its wildcard address.
func noIPv6(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

func destroy(ids []*rdmacm.ID) (err error) {
	for _, id := range ids {
		err = errors.Join(err, id.Destroy())
	}
	return err
}

// refuse rejects a peer that came too late, or for which the objects could not be
// created.
func refuse(id *rdmacm.ID) {
	_ = id.Reject(nil)
	_ = id.Destroy()
}

// destination returns the server's address.
func (s *session) destination(ctx context.Context) (netip.AddrPort, error) {
	ip, err := s.resolve(ctx, "-s", s.server)
	return netip.AddrPortFrom(ip, uint16(s.port)), err
}

// source returns the local address of -b, or the zero Addr without -b.
func (s *session) source(ctx context.Context) (netip.Addr, error) {
	if s.bind == "" {
		return netip.Addr{}, nil
	}
	return s.resolve(ctx, "-b", s.bind)
}

// sourcePort returns -b in the form for Dial.
func (s *session) sourcePort(ctx context.Context) (netip.AddrPort, error) {
	ip, err := s.source(ctx)
	if !ip.IsValid() {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(ip, 0), err
}

// listenAddress returns the address for Listen. No host means both address families.
func (s *session) listenAddress() string { return net.JoinHostPort(s.bind, strconv.Itoa(s.port)) }

// listenAddrs returns the addresses of -b, or of both families.
func (s *session) listenAddrs(ctx context.Context) ([]netip.AddrPort, error) {
	ip, err := s.source(ctx)
	if err != nil {
		return nil, err
	}
	ips := []netip.Addr{ip}
	if !ip.IsValid() {
		ips = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	addrs := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		addrs[i] = netip.AddrPortFrom(ip, uint16(s.port))
	}
	return addrs, nil
}

// resolve finds the first address of a name.
func (s *session) resolve(ctx context.Context, option, name string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(name)
	if err == nil {
		return ip.Unmap(), nil
	}
	if s.numeric {
		return netip.Addr{}, cli.UsageError{Text: fmt.Sprintf("%s %s is not an IP address, which -f ip needs", option, name)}
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", option, err)
	}
	return ips[0].Unmap(), nil
}
