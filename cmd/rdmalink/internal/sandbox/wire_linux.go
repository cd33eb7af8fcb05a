package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/roce"
	"github.com/goverbs/goverbs/rdmatest"
)

// wire connects the hosts' devices to the machine's network, by a UDP socket for each host's address.
type wire struct {
	sockets map[netip.Addr]*net.UDPConn
	key     []byte       // of the seals of datagrams; nil: they have none
	sealer  *roce.Sealer // nil without key
	failing sync.Once    // an error of sending is printed
	out     cli.Output

	mu      sync.Mutex
	dropped map[error]int // dropped datagrams by the error of Open
}

// wireBuffer is how many bytes a socket keeps, if the machine allows so many.
const wireBuffer = 4 << 20

// openWire opens the sockets. Nothing but these listens.
func openWire(addrs []netip.Addr, key []byte, out cli.Output) (*wire, error) {
	w := &wire{sockets: make(map[netip.Addr]*net.UDPConn), key: key, out: out, dropped: make(map[error]int)}
	if key != nil {
		w.sealer = roce.NewSealer(key)
	}
	for _, a := range addrs {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, roce.Port)))
		if err == nil {
			w.sockets[a] = c
			err = prepare(c, a)
		}
		if err != nil {
			w.close()
			return nil, explainWire(err, a)
		}
	}
	return w, nil
}

func explainWire(err error, a netip.Addr) error {
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("--wire %v: %w: it has to be an address of this machine, or of the network namespace that rdmalink runs in (ip addr)", a, err)
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("--wire %v: %w: another sandbox has the address, or Linux's rxe has the port in this network namespace (rdma link; modprobe -r rdma_rxe)", a, err)
	}
	return fmt.Errorf("--wire %v: %w", a, err)
}

// prepare makes the kernel send packets whole and with identification 0, which their ICRC covers, and receive packets without
// a checksum of UDP, as rxe sends them.
func prepare(c *net.UDPConn, a netip.Addr) error {
	_ = c.SetReadBuffer(wireBuffer) // what the machine allows
	_ = c.SetWriteBuffer(wireBuffer)
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		if a.Is4() {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
			return
		}
		const noChecksumReceived = 102 // UDP_NO_CHECK6_RX
		set = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, noChecksumReceived, 1))
	})
	return errors.Join(err, set)
}

// connect connects the fabric, whose hosts have the addresses.
func (w *wire) connect(f *rdmatest.Fabric) {
	receive := f.ConnectWire(w.send)
	for own, c := range w.sockets {
		go w.serve(c, own, receive)
	}
}

// serve receives the datagrams for a host's address.
func (w *wire) serve(c *net.UDPConn, own netip.Addr, receive func(rdmatest.Datagram)) {
	opener := roce.NewOpener(w.key)
	for b := make([]byte, roce.MostPacket+roce.SealSize+1); ; {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		d := rdmatest.Datagram{Src: from.Addr().Unmap(), Dst: own, SrcPort: from.Port(), Payload: b[:n]}
		if w.key != nil {
			if d.Payload, err = opener.Open(route(d), d.Payload, time.Now()); err != nil {
				w.drop(d.Src, err)
				continue
			}
		}
		receive(d)
	}
}

func route(d rdmatest.Datagram) roce.Route {
	return roce.Route{Src: d.Src, Dst: d.Dst, SrcPort: d.SrcPort}
}

// drop counts a datagram that has no valid seal.
func (w *wire) drop(from netip.Addr, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dropped[why]++; w.dropped[why] == 1 {
		w.out.Note("--wire-key: a datagram from %v was dropped: %v (later ones are only counted)", from, why)
	}
}

// send sends a datagram. The fabric calls it once at a time.
func (w *wire) send(d rdmatest.Datagram) {
	c := w.sockets[d.Src]
	if c == nil {
		return
	}
	if w.sealer != nil {
		d.Payload = w.sealer.Seal(route(d), d.Payload, time.Now())
	}
	if _, err := c.WriteToUDPAddrPort(d.Payload, netip.AddrPortFrom(d.Dst, roce.Port)); err != nil && !errors.Is(err, net.ErrClosed) {
		w.failing.Do(func() { w.out.Note("--wire: %v (later errors of this kind are not reported)", err) })
	}
}

// close closes the sockets, and reports how many datagrams were dropped.
func (w *wire) close() {
	for _, c := range w.sockets {
		c.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for why, n := range w.dropped {
		w.out.Note("--wire-key: %d datagrams were dropped: %v", n, why)
	}
}
