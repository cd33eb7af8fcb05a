package umad

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// The protocol of ibsim has control messages of 80 bytes and packets of 288 bytes. Numbers are in
// the byte order of the host, unless the same field of a umad header is in network byte order.
const (
	simMagic   = 0xdeadbeef
	controlLen = 80
	packetLen  = 288

	simError       = 0
	simConnect     = 1
	simDisconnect  = 2
	simGetVendor   = 4
	simGetNodeInfo = 7
	simGetPortInfo = 8
	simSetIsSM     = 9
	simGetPKeys    = 10
)

// controlTimeout limits the wait for the answer to a control message.
const controlTimeout = 10 * time.Second

// simPort is a port of a simulated node.
type simPort struct {
	node     string // for errors
	client   uint32
	data     net.Conn
	writing  chan struct{} // has room while nobody writes to data
	isSM     bool
	portGUID verbs.GUID

	controlMu sync.Mutex // held during a control request
	control   net.Conn

	mu     sync.Mutex
	agents map[uint16]*simAgent
	last   uint16
	smHeld bool
	closed bool
	done   chan struct{} // closed when the reader has ended
}

// OpenIBSim attaches to a node of the simulator ibsim and returns a port of the node: port 0 of a
// switch, port 1 of another node.
//
// The simulator doesn't support RMPP: only the first segment of a longer message arrives. It
// delivers requests only to one client of a node, which must have set IBSim.IsSM.
func OpenIBSim(c IBSim) (mad.Port, error) {
	p, err := dialIBSim(c)
	if err != nil {
		return nil, &verbs.Error{Op: "attach to", Object: "simulated node " + strconv.Quote(c.Node), Err: err}
	}
	return p, nil
}

func dialIBSim(c IBSim) (_ *simPort, err error) {
	if c.SockName == "" {
		c.SockName = "sim"
	}
	if c.ServerPort == 0 {
		c.ServerPort = 7070
	}
	p := &simPort{isSM: c.IsSM, writing: make(chan struct{}, 1), agents: make(map[uint16]*simAgent), done: make(chan struct{})}
	attached := false
	defer func() {
		if err == nil {
			return
		}
		if attached {
			err = errors.Join(err, p.tell(simDisconnect, nil))
		}
		for _, conn := range []net.Conn{p.control, p.data} {
			if conn != nil {
				err = errors.Join(err, conn.Close())
			}
		}
	}()

	var id uint32
	if c.Server != "" {
		id, err = p.bindUDP(c)
	} else {
		id, err = p.bindLocal(c)
	}
	if err != nil {
		return nil, err
	}
	info := make([]byte, 44)
	order := binary.NativeEndian
	order.PutUint32(info, id)
	if c.IsSM {
		order.PutUint32(info[8:], 1)
	}
	copy(info[12:43], c.Node)
	if err = p.ask(simConnect, info); err != nil {
		return nil, err
	}
	p.client = order.Uint32(info)
	if p.client > 1000 {
		return nil, fmt.Errorf("invalid client number %d from the simulator", p.client)
	}
	attached = true
	if c.Server != "" {
		err = p.connectUDP(c)
	} else {
		err = connectLocal(p.data, fmt.Sprintf("@%s:out%d\x00", c.SockName, p.client))
	}
	if err != nil {
		return nil, err
	}
	p.node = mad.Printable(text(info[12:44]))
	if c.IsSM {
		if err = p.setIsSM(true); err != nil {
			return nil, err
		}
	}
	go p.read()
	return p, nil
}

func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// bindLocal opens abstract Unix sockets. The zero byte at the end of a name is part of the name. The
// simulator identifies a client by the number in the name, which C's library sets to the process ID.
func (p *simPort) bindLocal(c IBSim) (id uint32, err error) {
	server := &net.UnixAddr{Name: "@" + c.SockName + ":ctl\x00", Net: "unixgram"}
	for id = uint32(os.Getpid()); ; id += 1 << 22 {
		local := func(kind string) *net.UnixAddr {
			return &net.UnixAddr{Name: fmt.Sprintf("@%s:%s%d\x00", c.SockName, kind, id), Net: "unixgram"}
		}
		data, err := net.ListenUnixgram("unixgram", local("in"))
		if errors.Is(err, unix.EADDRINUSE) && id < 1<<30 {
			continue // another port of this process
		}
		if err != nil {
			return 0, err
		}
		p.data = data
		p.control, err = net.DialUnix("unixgram", local("ctl"), server)
		if errors.Is(err, unix.ECONNREFUSED) {
			err = fmt.Errorf("no simulator is named %q (IBSIM_SOCKNAME): %w", c.SockName, err)
		}
		if err != nil {
			p.control = nil
		}
		return id, err
	}
}

// connectLocal connects a bound socket. A write to a connected socket waits while the simulator's
// queue is full.
func connectLocal(conn net.Conn, name string) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = unix.Connect(int(fd), &unix.SockaddrUnix{Name: name}) }); err != nil {
		return err
	}
	return result
}

func (p *simPort) bindUDP(c IBSim) (id uint32, err error) {
	if p.control, err = net.Dial("udp4", net.JoinHostPort(c.Server, fmt.Sprint(c.ServerPort))); err != nil {
		p.control = nil
		return 0, err
	}
	data, err := net.ListenUDP("udp4", &net.UDPAddr{})
	if err != nil {
		return 0, err
	}
	p.data = data
	return uint32(data.LocalAddr().(*net.UDPAddr).Port), nil
}

func (p *simPort) connectUDP(c IBSim) error {
	server := p.control.RemoteAddr().(*net.UDPAddr)
	raw, err := p.data.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: int(c.ServerPort) + int(p.client) + 1}
	copy(to.Addr[:], server.IP.To4())
	var result error
	if err := raw.Control(func(fd uintptr) { result = unix.Connect(int(fd), to) }); err != nil {
		return err
	}
	return result
}

// ask sends a control request to the simulator and replaces data with the answer.
func (p *simPort) ask(kind uint32, data []byte) error {
	p.controlMu.Lock()
	defer p.controlMu.Unlock()
	if err := p.tell(kind, data); err != nil {
		return err
	}
	order := binary.NativeEndian
	var b [controlLen]byte
	for {
		n, err := p.control.Read(b[:])
		switch {
		case err != nil:
			return fmt.Errorf("no response from the simulator: %w", err)
		case n != controlLen || order.Uint32(b[:]) != simMagic:
			continue
		case order.Uint32(b[8:]) == simError:
			return errors.New("the simulator refused the request; its console has the reason")
		case order.Uint32(b[8:]) != kind:
			continue
		}
		copy(data, b[16:])
		return nil
	}
}

// tell sends a control request to the simulator. It sets the deadline for sending it and for reading the
// response.
func (p *simPort) tell(kind uint32, data []byte) error {
	order := binary.NativeEndian
	var b [controlLen]byte
	order.PutUint32(b[:], simMagic)
	order.PutUint32(b[4:], p.client)
	order.PutUint32(b[8:], kind)
	order.PutUint32(b[12:], uint32(len(data)))
	copy(b[16:], data)
	if err := p.control.SetDeadline(time.Now().Add(controlTimeout)); err != nil {
		return err
	}
	_, err := p.control.Write(b[:])
	return err
}

func (p *simPort) setIsSM(on bool) error {
	var data [4]byte
	if on {
		binary.NativeEndian.PutUint32(data[:], 1)
	}
	return p.ask(simSetIsSM, data[:])
}

// failed returns the error of an operation on the port.
func (p *simPort) failed(op string, err error) error {
	return &verbs.Error{Op: op, Object: "port 1 of " + strconv.Quote(p.node), Device: "ibsim0", Err: err}
}

func (p *simPort) Attr() (mad.PortAttr, error) {
	a, err := p.attr()
	if err != nil {
		return a, p.failed("query", err)
	}
	return a, nil
}

func (p *simPort) attr() (mad.PortAttr, error) {
	var vendor [24]byte
	var b [64]byte
	var node mad.NodeInfo
	var port mad.PortInfo
	if err := p.ask(simGetVendor, vendor[:]); err != nil {
		return mad.PortAttr{}, err
	}
	if err := p.ask(simGetNodeInfo, b[:]); err != nil {
		return mad.PortAttr{}, err
	}
	if err := mad.Unmarshal(b[:], &node); err != nil {
		return mad.PortAttr{}, err
	}
	clear(b[:])
	if err := p.ask(simGetPortInfo, b[:]); err != nil {
		return mad.PortAttr{}, err
	}
	if err := mad.Unmarshal(b[:], &port); err != nil {
		return mad.PortAttr{}, err
	}
	order := binary.NativeEndian
	a := mad.PortAttr{
		Device: "ibsim0", Port: max(port.LocalPort, 1), NumPorts: 1, DeviceType: "simulator",
		Firmware: fmt.Sprint(order.Uint64(vendor[16:])), Hardware: fmt.Sprintf("%x", order.Uint32(vendor[8:])),
		NodeType: node.Type, NodeGUID: node.NodeGUID, SystemGUID: node.SystemGUID,
		LinkLayer: "IB", State: port.LinkState, PhysState: port.PhysLinkState,
		LID: port.LID, LMC: port.LMC, SMLID: port.SMLID, SMSL: port.SMSL, CapMask: port.CapMask,
	}
	if node.Type == mad.NodeSwitch {
		a.Port = 0
	}
	a.Rate, a.RateText = simRate(&port)
	p.mu.Lock()
	guid := p.portGUID
	p.mu.Unlock()
	if guid == 0 {
		// The NodeInfo in the simulator's answer lacks the GUID of the port.
		var err error
		if guid, err = p.ownGUID(); err != nil {
			return a, err
		}
		p.mu.Lock()
		p.portGUID = guid
		p.mu.Unlock()
	}
	a.PortGUID = guid
	var g verbs.GID
	binary.BigEndian.PutUint64(g[:], port.GIDPrefix)
	binary.BigEndian.PutUint64(g[8:], uint64(guid))
	a.GIDs = []verbs.GID{g}
	if err := p.ask(simGetPKeys, b[:]); err != nil {
		return a, err
	}
	for i := 0; i < len(b); i += 2 {
		a.PKeys = append(a.PKeys, binary.BigEndian.Uint16(b[i:]))
	}
	return a, nil
}

// ownGUID queries the subnet management agent of the port for its GUID.
func (p *simPort) ownGUID() (verbs.GUID, error) {
	agent, err := p.Register(mad.AgentConfig{Class: mad.ClassDirected})
	if err != nil {
		return 0, err
	}
	m, err := agent.Do(context.Background(), mad.Directed().SMP(mad.Get, mad.AttrNodeInfo, 0, 0), mad.Retry{})
	if err = errors.Join(err, agent.Close()); err != nil {
		return 0, err
	}
	var node mad.NodeInfo
	return node.PortGUID, errors.Join(m.Data.Err(), mad.Unmarshal(m.Data.Data(), &node))
}

// simRate returns the rate of a port, and its text in the format of sysfs.
func simRate(p *mad.PortInfo) (float64, string) {
	speed, name := 2.5, ""
	switch {
	case p.LinkSpeedExtActive&8 != 0:
		speed, name = 100, " NDR"
	case p.LinkSpeedExtActive&4 != 0:
		speed, name = 50, " HDR"
	case p.LinkSpeedExtActive&2 != 0:
		speed, name = 25, " EDR"
	case p.LinkSpeedExtActive&1 != 0:
		speed, name = 14, " FDR"
	case p.LinkSpeedActive == 4:
		speed, name = 10, " QDR"
	case p.LinkSpeedActive == 2:
		speed, name = 5, " DDR"
	}
	rate := speed * float64(p.LinkWidthActive.Lanes())
	return rate, fmt.Sprintf("%g Gb/sec (%v%s)", rate, p.LinkWidthActive, name)
}

func (p *simPort) Register(c mad.AgentConfig) (mad.Agent, error) {
	if c.Version == 0 {
		c.Version = c.Class.Version()
	}
	a := &simAgent{port: p}
	a.init("ibsim0", 1, c, DefaultMaxMessage)
	a.carrier = a
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, a.failed("register", net.ErrClosed)
	}
	for _, other := range p.agents {
		o := other.config
		if o.Class == c.Class && o.Version == c.Version && o.OUI == c.OUI && (o.Methods[0]&c.Methods[0] != 0 || o.Methods[1]&c.Methods[1] != 0) {
			return nil, a.failed("register", fmt.Errorf("%w: another agent of the port receives these methods", unix.EBUSY))
		}
	}
	if len(p.agents) >= 1<<15 {
		return nil, a.failed("register", unix.ENOMEM)
	}
	for p.last++; p.last == 0 || p.agents[p.last] != nil; p.last++ {
	}
	a.id = p.last
	p.agents[a.id] = a
	return a, nil
}

func (p *simPort) OpenSM() (io.Closer, error) {
	p.mu.Lock()
	held := p.smHeld || p.isSM
	p.smHeld = true
	p.mu.Unlock()
	if held {
		return nil, p.failed("open subnet manager of", fmt.Errorf("%w: it is open already", unix.EBUSY))
	}
	if err := p.setIsSM(true); err != nil {
		p.mu.Lock()
		p.smHeld = false
		p.mu.Unlock()
		return nil, p.failed("open subnet manager of", err)
	}
	return &simSM{port: p}, nil
}

type simSM struct {
	port *simPort
	once sync.Once
}

func (s *simSM) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		err = s.port.setIsSM(false)
		s.port.mu.Lock()
		s.port.smHeld = false
		s.port.mu.Unlock()
	})
	if err != nil {
		return s.port.failed("close subnet manager of", err)
	}
	return nil
}

func (p *simPort) read() {
	defer close(p.done)
	var b [512]byte
	for {
		n, err := p.data.Read(b[:])
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// An earlier packet didn't reach the simulator. Its request will time out.
			continue
		case n == packetLen:
			p.dispatch(b[:n])
		}
	}
}

func (p *simPort) dispatch(b []byte) {
	d := mad.MAD(b[32:])
	tid := d.TID()
	if binary.BigEndian.Uint32(b[16:]) != 0 {
		if a := p.agentOf(tid); a != nil {
			a.finish(uint32(tid), answer{err: mad.ErrTimeout})
		}
		return
	}
	m := &mad.Message{Data: append(mad.MAD(nil), d...)}
	m.Addr.LID = lidOf(b[4:])
	if d.Class() == mad.ClassSA && d.RMPPFlags()&mad.RMPPActive != 0 {
		// umad2sim sends the first 256 bytes of a message that hasn't been split. These fields make
		// them the first segment.
		m.Data.SetRMPPVersion(1)
		m.Data.SetRMPPType(mad.RMPPData)
		m.Data.SetRMPPSegment(1)
		m.Data.SetRMPPFlags(mad.RMPPActive | mad.RMPPFirst)
		if length := binary.BigEndian.Uint64(b[24:]); length >= 56 && length < mad.Size {
			m.Data.SetRMPPFlags(mad.RMPPActive | mad.RMPPFirst | mad.RMPPLast)
			m.Data.SetRMPPLength(uint32(length) - 36)
		}
	}
	m.Addr.QPN = binary.BigEndian.Uint32(b[12:])
	if !d.Class().SubnetManagement() {
		m.Addr.QKey = mad.QKeyGSI
	}
	if d.IsResponse() {
		if a := p.agentOf(tid); a != nil && (a.config.Class == d.Class() || a.config.Class.SubnetManagement() && d.Class().SubnetManagement()) {
			a.deliver(m)
		}
		return
	}
	p.mu.Lock()
	var to *simAgent
	for _, a := range p.agents {
		c := a.config
		if c.Class == d.Class() && c.Version == d.ClassVersion() && c.Methods.Has(d.Method()) && (!c.Class.Vendor2() || c.OUI == d.OUI()) {
			to = a
		}
	}
	p.mu.Unlock()
	if to != nil {
		to.deliver(m)
	}
}

// agentOf returns the agent that sent the request with a transaction ID. The agent's number is in
// the upper half, below the 16 bits that the simulator uses.
func (p *simPort) agentOf(tid uint64) *simAgent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.agents[uint16(tid>>32)]
}

func (p *simPort) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.failed("close", net.ErrClosed)
	}
	p.closed = true
	sm := p.isSM || p.smHeld
	for _, a := range p.agents {
		a.end(net.ErrClosed)
	}
	p.mu.Unlock()
	var err error
	if sm {
		err = p.setIsSM(false)
	}
	if err == nil {
		err = p.ask(simDisconnect, nil)
	}
	err = errors.Join(p.data.Close(), err, p.control.Close())
	<-p.done
	if err != nil {
		return p.failed("close", err)
	}
	return nil
}

// simAgent is an agent of a simulated port.
type simAgent struct {
	agent
	port *simPort
	id   uint16
}

func (a *simAgent) retries() bool { return false }

func (a *simAgent) unregister() error {
	a.port.mu.Lock()
	delete(a.port.agents, a.id)
	a.port.mu.Unlock()
	return nil
}

func (a *simAgent) send(m *mad.Message, tid uint32, retry mad.Retry) error {
	if len(m.Data) > mad.Size {
		return fmt.Errorf("%w: %d bytes; ibsim does not support RMPP", unix.EMSGSIZE, len(m.Data))
	}
	b := make([]byte, packetLen)
	putLID(b, m.Addr.LID)
	if m.Addr.LID == mad.PermissiveLID {
		putLID(b[4:], mad.PermissiveLID)
	}
	binary.BigEndian.PutUint32(b[8:], m.Addr.QPN)
	if !a.config.Class.SubnetManagement() {
		binary.BigEndian.PutUint32(b[12:], 1)
	}
	binary.BigEndian.PutUint64(b[24:], mad.Size)
	d := mad.MAD(b[32:])
	copy(d, m.Data)
	if tid != 0 {
		d.SetTID(uint64(a.id)<<32 | uint64(tid))
	}
	if retry.Timeout <= 0 {
		retry.Timeout = mad.DefaultTimeout
	}
	return a.port.write(b, retry.Timeout)
}

// write sends a packet. A simulator that doesn't read makes it wait until the timeout. The deadline
// is that of the socket, so there is one writer at a time.
func (p *simPort) write(b []byte, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	full := fmt.Errorf("%w: the simulator does not read its packets", mad.ErrTimeout)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case p.writing <- struct{}{}:
	case <-timer.C:
		return full
	}
	defer func() { <-p.writing }()
	if err := p.data.SetWriteDeadline(deadline); err != nil {
		return err
	}
	_, err := p.data.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return full
	}
	return err
}

// putLID writes a LID of a packet. ibsim's format is a 32-bit number in host order, whose value is
// the LID in network byte order read as a 16-bit number.
func putLID(b []byte, lid uint16) {
	var wire [2]byte
	binary.BigEndian.PutUint16(wire[:], lid)
	binary.NativeEndian.PutUint32(b, uint32(binary.NativeEndian.Uint16(wire[:])))
}

func lidOf(b []byte) uint16 {
	var wire [2]byte
	binary.NativeEndian.PutUint16(wire[:], uint16(binary.NativeEndian.Uint32(b)))
	return binary.BigEndian.Uint16(wire[:])
}
