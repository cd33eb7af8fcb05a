package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/abi"
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
	control []byte // control messages of the last datagram that was sent, for reuse

	receive func(rdmatest.Datagram)

	mu      sync.Mutex
	dropped map[error]int // dropped datagrams by the error of Open
	groups  map[membership]*net.UDPConn
}

// membership is that of a host in a multicast group.
type membership struct{ own, group netip.Addr }

// wireBuffer is how many bytes a socket keeps, if the machine allows so many.
const wireBuffer = 4 << 20

// openWire opens the sockets. Nothing but these listens.
func openWire(addrs []netip.Addr, key []byte, out cli.Output) (*wire, error) {
	w := &wire{sockets: make(map[netip.Addr]*net.UDPConn), key: key, out: out, dropped: make(map[error]int), groups: make(map[membership]*net.UDPConn)}
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

// prepare makes the kernel send packets whole, with identification 0, which their ICRC covers, and those to groups on the
// interface that has the address. IPv4 does the latter by itself.
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
			set = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO), showIPv4(int(fd)))
			return
		}
		index, err := interfaceOf(a)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, autoFlowLabel, 0) // which not every kernel knows
		set = errors.Join(err, showIPv6(int(fd)), unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO), acceptUnchecked(int(fd)),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, index))
	})
	return errors.Join(err, set)
}

// connect connects the fabric, whose hosts have the addresses.
func (w *wire) connect(f *rdmatest.Fabric) {
	w.receive = f.ConnectWire(w.send, w.join)
	for own, c := range w.sockets {
		go w.serve(c, rdmatest.Datagram{Dst: own})
	}
}

// join opens the socket of a host's membership in a group, or closes it. The fabric calls it once at a time.
func (w *wire) join(own, group netip.Addr, member bool) error {
	m := membership{own, group}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !member {
		if c := w.groups[m]; c != nil {
			c.Close()
		}
		delete(w.groups, m)
		return nil
	}
	c, err := listenGroup(own, group)
	if err != nil {
		w.out.Note("--wire: multicast group %v at %v: %v", group, own, err)
		return err
	}
	w.groups[m] = c
	go w.serve(c, rdmatest.Datagram{Dst: group, Member: own})
	return nil
}

// listenGroup returns a socket that receives the datagrams of a multicast group on the interface with the address own.
// Package net would bind the socket to all addresses.
func listenGroup(own, group netip.Addr) (*net.UDPConn, error) {
	const only = 0 // not what other sockets have joined
	family, at, join := unix.AF_INET, unix.Sockaddr(nil), (func(fd int) error)(nil)
	if group.Is4() {
		at = &unix.SockaddrInet4{Addr: group.As4(), Port: roce.Port}
		join = func(fd int) error {
			return errors.Join(showIPv4(fd), unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, only),
				unix.SetsockoptIPMreq(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreq{Multiaddr: group.As4(), Interface: own.As4()}))
		}
	} else {
		index, err := interfaceOf(own)
		if err != nil {
			return nil, err
		}
		family, at = unix.AF_INET6, &unix.SockaddrInet6{Addr: group.As16(), Port: roce.Port, ZoneId: uint32(index)}
		join = func(fd int) error {
			return errors.Join(acceptUnchecked(fd), showIPv6(fd), unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, only),
				unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(index)}))
		}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "multicast")
	defer file.Close()                                                                                           // FilePacketConn duplicates it
	if err := errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), join(fd)); err != nil { // beside other sandboxes
		return nil, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Bind(fd, at); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	c, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// interfaceOf returns the index of the interface that has an address.
func interfaceOf(a netip.Addr) (int, error) {
	all, err := net.Interfaces()
	if err != nil {
		return 0, err
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return 0, err
		}
		for _, own := range addrs {
			if n, ok := own.(*net.IPNet); ok && n.IP.Equal(a.AsSlice()) {
				return i.Index, nil
			}
		}
	}
	return 0, unix.EADDRNOTAVAIL
}

// acceptUnchecked makes a socket receive packets without a checksum of UDP, as rxe sends them.
func acceptUnchecked(fd int) error {
	const noChecksumReceived = 102 // UDP_NO_CHECK6_RX
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, noChecksumReceived, 1)
}

// showIPv4 makes a socket return the type of service and time to live of each datagram.
func showIPv4(fd int) error {
	return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1), unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1))
}

const (
	flowInfo      = 11 // IPV6_FLOWINFO, which has the flow label
	autoFlowLabel = 70 // IPV6_AUTOFLOWLABEL: the kernel makes a label of a flow that has none
)

// showIPv6 makes a socket return the traffic class, hop limit and flow label of each datagram. Some kernels don't
// support the flow label.
func showIPv6(fd int) error {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, flowInfo, 1)
	return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1), unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1))
}

// readHeader sets the fields of d that control messages have from its IP header.
func readHeader(d *rdmatest.Datagram, control []byte) {
	d.TrafficClass, d.HopLimit, d.FlowLabel = 0, 0, 0
	for len(control) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return
		}
		control = rest
		at := [2]int32{h.Level, h.Type}
		switch {
		case at == [2]int32{unix.IPPROTO_IP, unix.IP_TOS} && len(data) >= 1:
			d.TrafficClass = data[0]
		case len(data) < 4:
		case at == [2]int32{unix.IPPROTO_IP, unix.IP_TTL}, at == [2]int32{unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT}:
			d.HopLimit = uint8(binary.NativeEndian.Uint32(data))
		case at == [2]int32{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}:
			d.TrafficClass = uint8(binary.NativeEndian.Uint32(data))
		case at == [2]int32{unix.IPPROTO_IPV6, flowInfo}:
			d.FlowLabel = binary.BigEndian.Uint32(data) & (1<<20 - 1) // the other bits are the traffic class
		}
	}
}

// appendHeader appends the control messages that make the kernel send d with its IP header. Where d has no hop limit, it
// has the socket's.
func appendHeader(b []byte, d *rdmatest.Datagram) []byte {
	level, class, hops := int32(unix.IPPROTO_IPV6), int32(unix.IPV6_TCLASS), int32(unix.IPV6_HOPLIMIT)
	if d.Dst.Is4() {
		level, class, hops = unix.IPPROTO_IP, unix.IP_TOS, unix.IP_TTL
	}
	b = appendControl(b, level, class, binary.NativeEndian.AppendUint32(nil, uint32(d.TrafficClass)))
	if d.HopLimit > 0 {
		b = appendControl(b, level, hops, binary.NativeEndian.AppendUint32(nil, uint32(d.HopLimit)))
	}
	if d.FlowLabel > 0 && d.Dst.Is6() {
		b = appendControl(b, level, flowInfo, binary.BigEndian.AppendUint32(nil, d.FlowLabel))
	}
	return b
}

// appendControl appends a control message with an option of 4 bytes.
func appendControl(b []byte, level, typ int32, value []byte) []byte {
	h := unix.Cmsghdr{Level: level, Type: typ}
	h.SetLen(unix.CmsgLen(len(value)))
	b = append(append(b, abi.Bytes(&h)...), value...)
	return append(b, make([]byte, unix.CmsgSpace(len(value))-unix.CmsgLen(len(value)))...)
}

// serve receives datagrams for the destination of d.
func (w *wire) serve(c *net.UDPConn, d rdmatest.Datagram) {
	opener := roce.NewOpener(w.key)
	control := make([]byte, 128)
	for b := make([]byte, roce.MostPacket+roce.SealSize+1); ; {
		n, controls, _, from, err := c.ReadMsgUDPAddrPort(b, control)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		d.Src, d.SrcPort, d.Payload = from.Addr().Unmap(), from.Port(), b[:n]
		readHeader(&d, control[:controls])
		if w.key != nil {
			if d.Payload, err = opener.Open(route(d), d.Payload, time.Now()); err != nil {
				w.drop(d.Src, err)
				continue
			}
		}
		w.receive(d)
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
	w.control = appendHeader(w.control[:0], &d)
	if _, _, err := c.WriteMsgUDPAddrPort(d.Payload, w.control, netip.AddrPortFrom(d.Dst, roce.Port)); err != nil && !errors.Is(err, net.ErrClosed) {
		w.failing.Do(func() { w.out.Note("--wire: %v (later errors of this kind are not reported)", err) })
	}
}

// close closes the sockets, and reports how many datagrams were dropped.
func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.sockets {
		c.Close()
	}
	for _, c := range w.groups {
		c.Close()
	}
	for why, n := range w.dropped {
		w.out.Note("--wire-key: %d datagrams were dropped: %v", n, why)
	}
}
