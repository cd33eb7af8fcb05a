package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/roce"
	"github.com/goverbs/goverbs/rdmatest"
)

// wire connects the hosts' devices to the machine's network, by a UDP socket for each host's address.
type wire struct {
	sockets map[netip.Addr]*net.UDPConn
	failing sync.Once // an error of sending is printed
	out     cli.Output
}

// wireBuffer is how many bytes a socket keeps, if the machine allows so many.
const wireBuffer = 4 << 20

// openWire opens the sockets. Nothing but these listens.
func openWire(addrs []netip.Addr, out cli.Output) (*wire, error) {
	w := &wire{sockets: make(map[netip.Addr]*net.UDPConn), out: out}
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
		go func() {
			for b := make([]byte, roce.MostPacket+1); ; {
				n, from, err := c.ReadFromUDPAddrPort(b)
				switch {
				case errors.Is(err, net.ErrClosed):
					return
				case err == nil:
					receive(rdmatest.Datagram{Src: from.Addr(), Dst: own, SrcPort: from.Port(), Payload: b[:n]})
				}
			}
		}()
	}
}

func (w *wire) send(d rdmatest.Datagram) {
	c := w.sockets[d.Src]
	if c == nil {
		return
	}
	if _, err := c.WriteToUDPAddrPort(d.Payload, netip.AddrPortFrom(d.Dst, roce.Port)); err != nil && !errors.Is(err, net.ErrClosed) {
		w.failing.Do(func() { w.out.Note("--wire: %v (later errors of this kind are not reported)", err) })
	}
}

func (w *wire) close() {
	for _, c := range w.sockets {
		c.Close()
	}
}
