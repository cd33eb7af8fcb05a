package madtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/ib/mad"
)

// IbsimServer lets programs attach to nodes of a subnet with the protocol of the simulator ibsim. C's
// tools and opensm speak it with the library libumad2sim. The environment variables are those of
// ibsim: SIM_HOST is the name of a node, IBSIM_SOCKNAME the name of the server's sockets.
//
// The protocol doesn't support RMPP: a longer message is cut to its first 256 bytes, as by ibsim.
//
// A client that doesn't read the answers to its control messages, or that is gone when a MAD is for it,
// is detached.
type IbsimServer struct {
	subnet  *Subnet
	network string
	name    string // name of the Unix sockets
	udp     *net.UDPAddr
	control net.PacketConn

	mu      sync.Mutex
	closed  bool
	clients [maxIbsimClients]*ibsimClient
	wait    sync.WaitGroup
}

const maxIbsimClients = 10

// The constants of the protocol. Numbers in control messages are in the byte order of the machine.
const (
	ibsimMagic    = 0xdeadbeef
	ibsimControl  = 80 // bytes of a control message
	ibsimRequest  = 288
	ibsimMAD      = 32 // offset of the MAD in a request
	ibsimTimedOut = 110
)

const (
	ibsimError = iota
	ibsimConnect
	ibsimDisconnect
	ibsimGetPort
	ibsimGetVendor
	ibsimGetGID
	ibsimGetGUID
	ibsimGetNodeInfo
	ibsimGetPortInfo
	ibsimSetSM
	ibsimGetPKeys
)

// ListenIbsim starts a server, which runs until it is closed. On network "unixgram" the address is
// the name of the server's sockets; the default is "sim". On network "udp" the address is that of the
// control socket, such as 127.0.0.1:7070. The next ten ports are for data.
func (s *Subnet) ListenIbsim(network, address string) (*IbsimServer, error) {
	srv := &IbsimServer{subnet: s, network: network}
	var err error
	switch network {
	case "unixgram":
		if srv.name = address; address == "" {
			srv.name = "sim"
		}
		srv.control, err = net.ListenUnixgram(network, ibsimName(srv.name+":ctl"))
	case "udp":
		if srv.udp, err = net.ResolveUDPAddr(network, address); err == nil {
			srv.control, err = net.ListenUDP(network, srv.udp)
		}
	default:
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return nil, failed("start", "ibsim server", "%w", err)
	}
	srv.wait.Go(srv.serveControl)
	return srv, nil
}

// ibsimName returns a name in the abstract namespace. The NUL at its end is part of the name.
func ibsimName(name string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@" + name + "\x00", Net: "unixgram"}
}

// Close ends the server and detaches its clients.
func (srv *IbsimServer) Close() error {
	srv.mu.Lock()
	if srv.closed {
		srv.mu.Unlock()
		return failed("close", "ibsim server", "%w", net.ErrClosed)
	}
	srv.closed = true
	err := srv.control.Close()
	for _, c := range srv.clients {
		if c != nil {
			c.data.Close()
		}
	}
	srv.mu.Unlock()
	srv.wait.Wait()
	if err != nil {
		return failed("close", "ibsim server", "%w", err)
	}
	return nil
}

// Format prints a line for every verb.
func (srv *IbsimServer) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "ibsim server %q", srv.name) }

func (srv *IbsimServer) serveControl() {
	buf := make([]byte, ibsimControl)
	unixConn, local := srv.control.(*net.UnixConn)
	out := replies{from: unixConn}
	for {
		n, addr, err := srv.control.ReadFrom(buf) // addr is nil if the client's socket has no name
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || addr == nil || n < ibsimControl || binary.NativeEndian.Uint32(buf) != ibsimMagic {
			continue
		}
		if !srv.answer(buf, addr) {
			binary.NativeEndian.PutUint32(buf[8:], ibsimError)
		}
		if !local {
			srv.control.WriteTo(buf, addr) // the client repeats what it needs
			continue
		}
		name := addr.String()
		if out.send(buf, ibsimName(trimAt(name))) { // Go cuts a name at its first NUL
			srv.detach(name)
		}
	}
}

// detach ends the clients whose control messages come from a Unix socket.
func (srv *IbsimServer) detach(from string) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for _, c := range srv.clients {
		if c != nil && c.from == from {
			c.data.Close() // its goroutine detaches it
		}
	}
}

func trimAt(name string) string {
	if len(name) > 0 && name[0] == '@' {
		return name[1:]
	}
	return name
}

// answer handles a control message and replaces it with the answer. It reports whether it succeeded.
func (srv *IbsimServer) answer(msg []byte, from net.Addr) bool {
	kind := binary.NativeEndian.Uint32(msg[8:])
	data := msg[16:ibsimControl]
	if kind == ibsimConnect {
		num, ok := srv.connect(data, from)
		if ok {
			binary.NativeEndian.PutUint32(msg[4:], uint32(num))
		}
		return ok
	}
	num := binary.NativeEndian.Uint32(msg[4:])
	srv.mu.Lock()
	var c *ibsimClient
	if num < maxIbsimClients {
		c = srv.clients[num]
	}
	srv.mu.Unlock()
	if c == nil {
		return false
	}
	if kind == ibsimDisconnect {
		c.data.Close() // ends serve, which detaches the client
		return true
	}
	s := srv.subnet
	s.mu.Lock()
	defer s.unlock()
	p := c.port
	switch kind {
	case ibsimGetPort:
		binary.NativeEndian.PutUint16(data, p.info.LID)
		data[2] = uint8(p.info.LinkState)
	case ibsimGetVendor:
		clear(data)
		binary.NativeEndian.PutUint32(data, p.node.info.VendorID)
		binary.NativeEndian.PutUint32(data[4:], uint32(p.node.info.DeviceID))
		binary.NativeEndian.PutUint32(data[8:], p.node.info.Revision)
		binary.NativeEndian.PutUint64(data[16:], 1)
	case ibsimGetGID:
		gid := p.gid()
		copy(data, gid[:])
	case ibsimGetGUID:
		gid := p.gid()
		copy(data, gid[8:])
	case ibsimGetNodeInfo:
		info := p.node.info
		info.LocalPort, info.PortGUID = p.num, p.guid
		return put(data, &info) == mad.StatusOK
	case ibsimGetPortInfo:
		q := p
		if num := int(data[0]); num != 0 {
			if q = p.node.Port(num); q == nil {
				return false
			}
		}
		info := q.info
		info.LocalPort = p.num
		return put(data, &info) == mad.StatusOK
	case ibsimSetSM:
		c.setSM(binary.NativeEndian.Uint32(data) != 0)
	case ibsimGetPKeys:
		clear(data)
		keys := p.pkeys
		if len(keys) == 0 {
			keys = []uint16{defaultPKey}
		}
		for i, k := range keys[:min(len(keys), 32)] {
			binary.BigEndian.PutUint16(data[2*i:], k)
		}
	default:
		return false
	}
	return true
}

// connect attaches a client to the node that it names, or to the first node if it names none.
func (srv *IbsimServer) connect(data []byte, from net.Addr) (num int, ok bool) {
	id := binary.NativeEndian.Uint32(data)
	name, _, _ := cutNUL(data[12:44])
	s := srv.subnet
	n := s.nodes[0]
	if name != "" {
		if n = s.byName[name]; n == nil {
			n = s.byDescription(name)
		}
	}
	if n == nil || srv.network == "udp" && (id == 0 || id > math.MaxUint16) {
		return 0, false
	}
	p := n.ports[0]
	for _, q := range n.ports[1:] {
		if p == nil || p.num != 0 && p.peer == nil && q.peer != nil {
			p = q
		}
	}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	for num = range srv.clients {
		if srv.clients[num] == nil {
			break
		}
	}
	if srv.clients[num] != nil || srv.closed {
		return 0, false
	}
	c := &ibsimClient{server: srv, num: num, from: from.String(), port: p, out: make(chan []byte, 256)}
	var err error
	if srv.network == "udp" {
		host, _ := from.(*net.UDPAddr)
		c.peer = &net.UDPAddr{IP: host.IP, Port: int(id), Zone: host.Zone}
		local := *srv.udp
		local.Port = srv.control.LocalAddr().(*net.UDPAddr).Port + 1 + num
		c.data, err = net.ListenUDP("udp", &local)
	} else {
		c.peer = ibsimName(fmt.Sprintf("%s:in%d", srv.name, id))
		c.data, err = net.ListenUnixgram("unixgram", ibsimName(fmt.Sprintf("%s:out%d", srv.name, num)))
	}
	if err != nil {
		return 0, false
	}
	srv.clients[num] = c
	s.mu.Lock()
	p.hosts = append(p.hosts, c)
	c.setSM(binary.NativeEndian.Uint32(data[8:]) != 0)
	s.unlock()
	binary.NativeEndian.PutUint32(data, uint32(num))
	clear(data[12:44])
	copy(data[12:43], n.name)
	srv.wait.Go(c.serve)
	srv.wait.Go(c.write)
	return num, true
}

func cutNUL(b []byte) (text string, rest []byte, found bool) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:], true
		}
	}
	return string(b), nil, false
}

func (s *Subnet) byDescription(desc string) *Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.desc == desc {
			return n
		}
	}
	return nil
}

// ibsimClient is a program that has attached to a port. The subnet's lock guards sm.
type ibsimClient struct {
	server *IbsimServer
	num    int
	from   string // where its control messages come from
	port   *Port
	peer   net.Addr
	data   net.PacketConn
	out    chan []byte // packets to the client; if it is full, packets are lost
	sm     bool        // the client receives requests to QP 0 and 1
}

// setSM sets whether the client is a subnet manager. The subnet is locked.
func (c *ibsimClient) setSM(on bool) {
	if c.sm == on {
		return
	}
	c.sm = on
	if on {
		c.port.info.CapMask |= capIsSM
	} else {
		c.port.info.CapMask &^= capIsSM
	}
	c.port.trapLocalChange(false)
}

// serve reads the client's packets until its socket is closed.
func (c *ibsimClient) serve() {
	buf := make([]byte, 2*ibsimRequest)
	for {
		n, _, err := c.data.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			break
		}
		if err != nil || n < ibsimRequest {
			continue
		}
		c.packet(buf[:ibsimRequest])
	}
	s := c.server.subnet
	s.mu.Lock()
	c.port.detach(c)
	c.setSM(false)
	s.unlock()
	close(c.out) // the client has been detached, so nobody sends to it
	c.server.mu.Lock()
	c.server.clients[c.num] = nil
	c.server.mu.Unlock()
}

// write sends the client its packets. A client that is gone doesn't hold up the subnet, and is detached.
func (c *ibsimClient) write() {
	for b := range c.out {
		if _, err := c.data.WriteTo(b, c.peer); errors.Is(err, syscall.ECONNREFUSED) {
			c.data.Close() // serve detaches it
		}
	}
}

// queue queues a packet for the client. The subnet is locked.
func (c *ibsimClient) queue(b []byte) {
	select {
	case c.out <- b:
	default:
	}
}

// packet sends a client's MAD. If nobody will answer a request, packet returns it as timed out.
func (c *ibsimClient) packet(b []byte) {
	data, err := mad.Parse(append([]byte(nil), b[ibsimMAD:ibsimMAD+mad.Size]...))
	if err != nil {
		return
	}
	m := &mad.Message{Data: data, Addr: mad.Addr{LID: binary.BigEndian.Uint16(b), QPN: binary.BigEndian.Uint32(b[8:])}}
	if !data.IsResponse() {
		// These bits identify the client of a response.
		data.SetTID(data.TID()&(1<<48-1) | uint64(c.num+1)<<48)
	}
	s := c.server.subnet
	s.mu.Lock()
	defer s.unlock()
	if !s.send(c.port, m) && !data.IsResponse() && data.Method() != mad.Trap {
		// The returned header of a directed route is the one that was sent.
		copy(b[ibsimMAD+8:ibsimMAD+16], data[8:16])
		binary.BigEndian.PutUint32(b[16:], ibsimTimedOut)
		c.queue(append([]byte(nil), b...))
	}
}

func (c *ibsimClient) request(m *mad.Message) bool {
	if !c.sm {
		return false
	}
	c.deliver(m)
	return true
}

func (c *ibsimClient) response(m *mad.Message) bool {
	if m.Data.TID()>>48 != uint64(c.num+1) {
		return false
	}
	c.deliver(m)
	return true
}

func (c *ibsimClient) deliver(m *mad.Message) {
	b := make([]byte, ibsimRequest)
	binary.BigEndian.PutUint16(b, c.port.owner().info.LID)
	binary.BigEndian.PutUint16(b[4:], m.Addr.LID)
	binary.BigEndian.PutUint32(b[8:], m.Addr.QPN)
	binary.BigEndian.PutUint32(b[12:], m.Addr.QPN)
	length := uint64(mad.Size)
	const headers = 36
	if m.Data.Class() == mad.ClassSA && m.Data.RMPPFlags()&mad.RMPPActive != 0 && m.Data.RMPPLength() != 0 {
		length = min(length, headers+uint64(m.Data.RMPPLength()))
	}
	binary.BigEndian.PutUint64(b[24:], length)
	copy(b[ibsimMAD:], m.Data)
	c.queue(b)
}
