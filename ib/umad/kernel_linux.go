package umad

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// The ioctl requests of rdma/ib_user_mad.h.
const (
	registerAgent   = 0xc01c1b01
	unregisterAgent = 0x40041b02
	enablePKey      = 0x00001b03
	registerAgent2  = 0xc0281b04
)

// headerSize is the length of struct ib_user_mad_hdr.
const headerSize = 64

// file is an open umad node.
type file interface {
	io.ReadWriteCloser
	// ioctl issues a request. The kernel may write to the argument, which has a fixed size.
	ioctl(request uintptr, arg []byte) error
}

// port is a port of the kernel.
type port struct {
	host host
	node node
	file file
	most int // maximum length of a message, in bytes

	mu      sync.Mutex
	agents  map[uint32]*kernelAgent
	reading bool
	readErr error // why the reader ended
	closed  bool
	done    chan struct{} // closed when the reader has ended
}

func (h host) openPort(c Config, device string, number uint8) (mad.Port, error) {
	nodes, err := h.nodes()
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.device == device && n.port == number {
			f, err := openFile(filepath.Join(h.dev, n.umad))
			if err != nil {
				return nil, nodeError(h, n, n.umad, err)
			}
			return newPort(c, h, n, f)
		}
	}
	return nil, failed("open", device, number, fmt.Errorf("%w: it has no umad node", verbs.ErrNoDevice))
}

func newPort(c Config, h host, n node, f file) (*port, error) {
	p := &port{host: h, node: n, file: f, most: c.maxMessage(), agents: make(map[uint32]*kernelAgent), done: make(chan struct{})}
	// From now on, headers have a P_Key index.
	if err := f.ioctl(enablePKey, nil); err != nil {
		return nil, p.failed("open", errors.Join(fmt.Errorf("P_Keys: %w", err), f.Close()))
	}
	return p, nil
}

// nodeError returns the error of opening a device node of a port, with the remedy.
func nodeError(h host, n node, name string, err error) error {
	path := filepath.Join(h.dev, name)
	e := &verbs.Error{Op: "open", Object: path, Device: n.device, Err: err}
	if pathErr := new(fs.PathError); errors.As(err, &pathErr) {
		e.Err = pathErr.Err
	}
	switch {
	case errors.Is(err, unix.EACCES):
		e.Hint = "it belongs to root: run as root, or give the user rights to the node (udev rule or chgrp)"
	case errors.Is(err, unix.EPERM):
		e.Hint = "the container may not use it: start it with --device=" + path
	case errors.Is(err, fs.ErrNotExist):
		e.Hint = "the device exists without its node: a container needs --device=" + path
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EBUSY):
		e.Err, e.Hint = unix.EBUSY, "another subnet manager holds it"
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		e.Hint = "the device was removed"
	}
	return e
}

// failed returns the error of an operation on the port.
func (p *port) failed(op string, err error) error { return failed(op, p.node.device, p.node.port, err) }

func (p *port) Attr() (mad.PortAttr, error) { return p.host.attr(p.node.device, p.node.port) }

func (p *port) Register(c mad.AgentConfig) (mad.Agent, error) {
	if c.Version == 0 {
		c.Version = c.Class.Version()
	}
	c.RMPP = c.RMPP || c.Class == mad.ClassSA
	a := &kernelAgent{port: p}
	a.init(p.node.device, p.node.port, c, p.most)
	a.carrier = a
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, a.failed("register", net.ErrClosed)
	}
	if p.readErr != nil {
		return nil, a.failed("register", p.readErr)
	}
	id, err := p.register(c)
	if err != nil {
		return nil, a.failed("register", p.registerError(c, err))
	}
	if p.agents[id] != nil {
		return nil, a.failed("register", fmt.Errorf("the kernel gave two agents the number %d", id))
	}
	a.id = id
	p.agents[id] = a
	if !p.reading {
		p.reading = true
		go p.read()
	}
	return a, nil
}

// register registers an agent with the kernel. Linux before 3.17 has only the older request.
func (p *port) register(c mad.AgentConfig) (uint32, error) {
	order := binary.NativeEndian
	qpn := uint8(1)
	if c.Class.SubnetManagement() {
		qpn = 0
	}
	rmpp := uint8(0)
	if c.RMPP {
		rmpp = 1
	}
	var arg [40]byte
	order.PutUint32(arg[4:], uint32(qpn))
	arg[8], arg[9] = uint8(c.Class), c.Version
	order.PutUint64(arg[16:], c.Methods[0])
	order.PutUint64(arg[24:], c.Methods[1])
	order.PutUint32(arg[32:], c.OUI)
	arg[36] = rmpp
	err := p.file.ioctl(registerAgent2, arg[:])
	if !errors.Is(err, unix.ENOTTY) {
		return order.Uint32(arg[:]), err
	}
	var old [28]byte
	for m := range mad.Method(128) {
		if c.Methods.Has(m) {
			// The mask consists of native words. On 64-bit big-endian machines the layout differs,
			// but those machines run kernels with REGISTER_AGENT2.
			word := old[4+m/32*4:]
			order.PutUint32(word, order.Uint32(word)|1<<(m%32))
		}
	}
	old[20], old[21], old[22] = qpn, uint8(c.Class), c.Version
	old[23], old[24], old[25] = byte(c.OUI>>16), byte(c.OUI>>8), byte(c.OUI)
	old[26] = rmpp
	err = p.file.ioctl(registerAgent, old[:])
	return order.Uint32(old[:]), err
}

func (p *port) registerError(c mad.AgentConfig, err error) error {
	attr, attrErr := p.Attr()
	switch {
	case c.Class.SubnetManagement() && attrErr == nil && attr.LinkLayer == "Ethernet":
		return fmt.Errorf("%w (%w): its link layer is Ethernet", mad.ErrNoSMI, err)
	case errors.Is(err, unix.EINVAL) && c.Methods != (mad.MethodMask{}):
		return fmt.Errorf("%w (%w): another agent of the port receives these methods", unix.EBUSY, err)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: an open port has at most 32 agents", err)
	case errors.Is(err, unix.EPIPE):
		return fmt.Errorf("%w: the device was removed", err)
	}
	return err
}

// read reads messages and dispatches them, until the port is closed or its device is removed.
func (p *port) read() {
	defer close(p.done)
	buf := make([]byte, headerSize+mad.Size)
	for {
		n, err := p.file.Read(buf)
		switch {
		case errors.Is(err, unix.ENOSPC):
			if err := p.readLong(buf); err != nil {
				p.end(err)
				return
			}
		case errors.Is(err, unix.EINTR):
		case err != nil:
			p.end(readError(err))
			return
		case n >= headerSize && n <= len(buf):
			p.dispatch(buf[:n])
		}
	}
}

// readError adds the cause to an error of a read, if the cause is known.
func readError(err error) error {
	if errors.Is(err, unix.EIO) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%w: the device was removed", err)
	}
	return err
}

// maxRead is the maximum length of one read by package os.
const maxRead = 1 << 30

// readLong reads a message that didn't fit into start, which has its beginning. The header has the
// length of the whole message. The kernel copies a message as a whole or not at all, so the buffer
// must have that length. Its pages get memory when the kernel writes to them. The buffer of a message
// beyond the limit repeats a few pages, and takes no more memory than those.
func (p *port) readLong(start []byte) error {
	need := int64(binary.NativeEndian.Uint32(start[16:]))
	size := need - headerSize
	if size <= mad.Size || need > maxRead {
		return fmt.Errorf("the kernel has a message of %d bytes with its header: %w", need, unix.EMSGSIZE)
	}
	tooLong := size > int64(p.most)
	buf, err := newBuffer(int(need), tooLong)
	if err != nil {
		return fmt.Errorf("buffer for a message of %d bytes: %w", size, err)
	}
	defer buf.free()
	n, err := p.file.Read(buf.bytes)
	for errors.Is(err, unix.EINTR) {
		n, err = p.file.Read(buf.bytes)
	}
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("a message of %d bytes doesn't fit into a buffer of that length: %w", size, err)
	case err != nil:
		return readError(err)
	case tooLong:
		p.refuse(start, size)
	case n >= headerSize && n <= len(buf.bytes):
		p.dispatch(buf.bytes[:n])
	}
	return nil
}

// refuse ends the request whose response is longer than the limit. It drops a request of that length.
func (p *port) refuse(start []byte, size int64) {
	d := mad.MAD(start[headerSize:])
	p.mu.Lock()
	a := p.agents[binary.NativeEndian.Uint32(start)]
	p.mu.Unlock()
	if a != nil && d.IsResponse() {
		a.finish(uint32(d.TID()), answer{err: &TooLongError{Size: size, Limit: p.most}})
	}
}

// dispatch passes a message to its agent. It drops malformed messages and those of unknown agents.
func (p *port) dispatch(b []byte) {
	order := binary.NativeEndian
	p.mu.Lock()
	a := p.agents[order.Uint32(b)]
	p.mu.Unlock()
	data := b[headerSize:]
	if a == nil || len(data) < 24 {
		return
	}
	if status := order.Uint32(b[4:]); status != 0 {
		var err error = mad.ErrTimeout
		if status != uint32(unix.ETIMEDOUT) {
			err = fmt.Errorf("the kernel could not send the request: %w", unix.Errno(status))
		}
		a.finish(uint32(mad.MAD(data).TID()), answer{err: err})
		return
	}
	// An RMPP message ends with its payload, so it may have less than 256 bytes, which MAD's methods
	// need. Its header has the length of the payload.
	m := &mad.Message{Data: make(mad.MAD, max(len(data), mad.Size))}
	copy(m.Data, data)
	m.Addr.QPN = binary.BigEndian.Uint32(b[20:])
	if m.Addr.QKey = binary.BigEndian.Uint32(b[24:]); m.Addr.QKey == 0 && m.Addr.QPN != 0 {
		// The kernel doesn't report the Q_Key, but a response needs one.
		m.Addr.QKey = mad.QKeyGSI
	}
	m.Addr.LID = binary.BigEndian.Uint16(b[28:])
	m.Addr.SL, m.Addr.PathBits = b[30], b[31]
	m.Addr.PKeyIndex = order.Uint16(b[56:])
	if b[32] != 0 {
		m.Addr.GRH = &mad.GRH{
			GID: verbs.GID(b[36:52]), GIDIndex: b[33], HopLimit: b[34], TrafficClass: b[35], FlowLabel: binary.BigEndian.Uint32(b[52:]) & 0xfffff,
		}
	}
	a.deliver(m)
}

// end ends all agents with an error.
func (p *port) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		err = net.ErrClosed
	}
	p.readErr = err
	for _, a := range p.agents {
		a.end(err)
	}
}

func (p *port) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return p.failed("close", net.ErrClosed)
	}
	p.closed = true
	reading := p.reading
	for _, a := range p.agents {
		a.end(net.ErrClosed)
	}
	p.mu.Unlock()
	err := p.file.Close()
	if reading {
		<-p.done
	}
	if err != nil {
		return p.failed("close", err)
	}
	return nil
}

func (p *port) OpenSM() (io.Closer, error) {
	// Linux before 6.12 or so also has an issm node for RoCE.
	if attr, err := p.Attr(); p.node.issm == "" || err == nil && attr.LinkLayer == "Ethernet" {
		return nil, p.failed("open subnet manager of", mad.ErrNoSMI)
	}
	f, err := os.OpenFile(filepath.Join(p.host.dev, p.node.issm), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nodeError(p.host, p.node, p.node.issm, err)
	}
	return f, nil
}

// kernelAgent is an agent that is registered with the kernel.
type kernelAgent struct {
	agent
	port *port
	id   uint32
}

func (a *kernelAgent) retries() bool { return true }

func (a *kernelAgent) unregister() error {
	a.port.mu.Lock()
	defer a.port.mu.Unlock()
	delete(a.port.agents, a.id)
	if a.port.closed {
		return nil
	}
	var arg [4]byte
	binary.NativeEndian.PutUint32(arg[:], a.id)
	if err := a.port.file.ioctl(unregisterAgent, arg[:]); err != nil {
		return a.failed("unregister", err)
	}
	return nil
}

func (a *kernelAgent) send(m *mad.Message, tid uint32, retry mad.Retry) error {
	if len(m.Data) > a.port.most {
		return &TooLongError{Size: int64(len(m.Data)), Limit: a.port.most}
	}
	order := binary.NativeEndian
	b := make([]byte, headerSize+max(len(m.Data), mad.Size))
	order.PutUint32(b, a.id)
	if tid != 0 {
		order.PutUint32(b[8:], uint32(max(retry.Timeout.Milliseconds(), 1)))
		order.PutUint32(b[12:], uint32(retry.Tries-1))
	}
	binary.BigEndian.PutUint32(b[20:], m.Addr.QPN)
	binary.BigEndian.PutUint32(b[24:], m.Addr.QKey)
	binary.BigEndian.PutUint16(b[28:], m.Addr.LID)
	b[30], b[31] = m.Addr.SL, m.Addr.PathBits
	if g := m.Addr.GRH; g != nil {
		b[32], b[33], b[34], b[35] = 1, g.GIDIndex, g.HopLimit, g.TrafficClass
		copy(b[36:], g.GID[:])
		binary.BigEndian.PutUint32(b[52:], g.FlowLabel&0xfffff)
	}
	order.PutUint16(b[56:], m.Addr.PKeyIndex)
	d := mad.MAD(b[headerSize:])
	copy(d, m.Data)
	if tid != 0 {
		d.SetTID(uint64(tid))
	}
	if len(d) > mad.Size {
		d.SetRMPPVersion(1)
		d.SetRMPPType(mad.RMPPData)
		d.SetRMPPFlags(mad.RMPPActive)
	}
	if _, err := a.port.file.Write(b); err != nil {
		return err
	}
	return nil
}

// device is a device node. Reads wait in Go's poller.
type device struct{ *os.File }

func openFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(fmt.Errorf("not a umad node, because it does not support polling: %w", err), f.Close())
	}
	return device{f}, nil
}

func (d device) ioctl(request uintptr, arg []byte) error {
	c, err := d.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := c.Control(func(fd uintptr) { result = ioctl(fd, request, arg) }); err != nil {
		return err
	}
	return result
}
