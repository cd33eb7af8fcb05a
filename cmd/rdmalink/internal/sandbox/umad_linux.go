package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// The requests of ioctl(2) of rdma/ib_user_mad.h.
const (
	umadRegister   = 0xc01c1b01
	umadUnregister = 0x40041b02
	umadEnablePKey = 0x00001b03
	umadRegister2  = 0xc0281b04
)

const (
	umadHeader    = 64 // bytes of struct ib_user_mad_hdr
	umadOldHeader = 56 // without a P_Key index
	umadAgents    = 32 // of a file
	madHeader     = 24
	rmppHeader    = 36 // the least that a write has behind its header

	// The kernel bounds none of these. A file that reaches these limits loses what comes, as one without memory does.
	maxUmadQueue   = 4096     // messages that wait for read(2)
	maxUmadBytes   = 64 << 20 // of these messages
	maxUmadPending = 4096     // requests without a response yet
)

// umadFile is an open node umadN: a port of the subnet. The file behind it is a pipe with a byte for
// each message that waits, because processes poll it.
type umadFile struct {
	is   node
	port mad.Port
	pipe *os.File
	life context.Context
	end  context.CancelFunc

	mu       sync.Mutex
	used     bool // had an agent
	pkeys    bool // headers have a P_Key index
	agents   [umadAgents]*umadAgent
	messages []umadMessage
	bytes    int // of the messages
	waiting  []umadRead
	pending  map[umadRequest]bool
}

// lastAgent is the number of the newest agent of all files. It distinguishes their requests.
var lastAgent atomic.Uint32

type umadAgent struct {
	mad.Agent
	high uint32 // the high half of the transaction IDs of its requests
	rmpp bool   // the kernel does RMPP
}

// umadRequest names a request that waits for its response.
type umadRequest struct {
	class mad.Class
	tid   uint32
}

// umadMessage is a message for read(2).
type umadMessage struct {
	header [umadHeader]byte
	data   []byte
}

// umadRead is a read(2) that blocks.
type umadRead struct {
	c    *call
	room uint64
}

func (c *call) openUmad(p *fabricPort, flags int) result {
	own, theirs, err := c.files.pipe()
	if err != nil {
		return failed(err)
	}
	defer theirs.Close()
	u := &umadFile{is: p.umad, pipe: own, pending: make(map[umadRequest]bool)}
	u.life, u.end = context.WithCancel(context.Background())
	err = unix.SetNonblock(int(theirs.Fd()), flags&unix.O_NONBLOCK != 0)
	if err == nil {
		u.port, err = p.open()
	}
	if err != nil {
		own.Close()
		return failed(err)
	}
	if err := c.files.add(theirs, u); err != nil {
		u.close()
		return failed(err)
	}
	return done(c.giveOurs(int(theirs.Fd()), flags&unix.O_CLOEXEC != 0))
}

func (u *umadFile) node() node { return u.is }

func (u *umadFile) descriptor() *os.File { return u.pipe }

func (u *umadFile) close() {
	u.end()
	_ = u.port.Close()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pipe.Close() // a thread that waits does so until it gets a signal, as in the kernel
}

// umadIoctl carries out one of the four requests.
func (c *call) umadIoctl() result {
	u, ok := find[*umadFile](c, c.fd(0))
	if !ok {
		return resume
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch uint32(c.Args[1]) {
	case umadEnablePKey:
		if u.used {
			return result{errno: syscall.EINVAL}
		}
		u.pkeys = true
		return result{}
	case umadUnregister:
		id, err := get[uint32](c.process, c.Args[2])
		if err != nil {
			return failed(err)
		}
		if id >= umadAgents || u.agents[id] == nil {
			return result{errno: syscall.EINVAL}
		}
		_ = u.agents[id].Close()
		u.agents[id] = nil
		return result{}
	case umadRegister:
		var arg [28]byte
		if err := c.read(c.Args[2], arg[:]); err != nil {
			return failed(err)
		}
		config := mad.AgentConfig{Class: mad.Class(arg[21]), Version: arg[22], OUI: uint32(arg[23])<<16 | uint32(arg[24])<<8 | uint32(arg[25])}
		// On amd64 and arm64 the words of 32 bits form the same bits as the words of a MethodMask.
		config.Methods[0], config.Methods[1] = binary.NativeEndian.Uint64(arg[4:]), binary.NativeEndian.Uint64(arg[12:])
		return u.register(c, config, uint32(arg[20]), arg[26])
	}
	var arg [40]byte
	if err := c.read(c.Args[2], arg[:]); err != nil {
		return failed(err)
	}
	const userRMPP = 1
	flags, oui := binary.NativeEndian.Uint32(arg[12:]), binary.NativeEndian.Uint32(arg[32:])
	if flags&^userRMPP != 0 {
		_ = put(c.process, c.Args[2]+12, uint32(userRMPP))
		return result{errno: syscall.EINVAL}
	}
	if oui>>24 != 0 {
		return result{errno: syscall.EINVAL}
	}
	if !u.used {
		u.pkeys = true
	}
	config := mad.AgentConfig{Class: mad.Class(arg[8]), Version: arg[9], OUI: oui}
	config.Methods[0], config.Methods[1] = binary.NativeEndian.Uint64(arg[16:]), binary.NativeEndian.Uint64(arg[24:])
	rmpp := arg[36]
	if flags&userRMPP != 0 {
		rmpp = 0
	}
	return u.register(c, config, binary.NativeEndian.Uint32(arg[4:]), rmpp)
}

// register makes an agent. Its number is the first field of the request.
func (u *umadFile) register(c *call, config mad.AgentConfig, qpn uint32, rmpp uint8) result {
	if qpn > 1 || config.Class != 0 && config.Class.SubnetManagement() != (qpn == 0) {
		return result{errno: syscall.EINVAL}
	}
	id := 0
	for id < umadAgents && u.agents[id] != nil {
		id++
	}
	if id == umadAgents {
		return result{errno: syscall.ENOMEM}
	}
	config.RMPP = rmpp != 0
	a, err := u.port.Register(config)
	switch {
	case errors.Is(err, net.ErrClosed):
		return result{errno: syscall.EPIPE}
	case err != nil:
		return result{errno: syscall.EINVAL} // as for methods that another agent receives
	}
	if err := put(c.process, c.Args[2], uint32(id)); err != nil {
		_ = a.Close()
		return failed(err)
	}
	u.used = true
	u.agents[id] = &umadAgent{a, lastAgent.Add(1), config.RMPP}
	if config.Methods != (mad.MethodMask{}) {
		go u.receive(u.agents[id], uint32(id))
	}
	return result{}
}

// receive queues the requests that come for an agent.
func (u *umadFile) receive(a *umadAgent, id uint32) {
	for {
		m, err := a.Receive(u.life)
		if err != nil {
			return
		}
		u.mu.Lock()
		u.queue(u.header(id, m), payload(m))
		u.mu.Unlock()
	}
}

// header returns the header of a received message.
func (u *umadFile) header(id uint32, m *mad.Message) (h [umadHeader]byte) {
	binary.NativeEndian.PutUint32(h[0:], id)
	binary.BigEndian.PutUint32(h[20:], m.Addr.QPN)
	binary.BigEndian.PutUint16(h[28:], m.Addr.LID)
	h[30], h[31] = m.Addr.SL, m.Addr.PathBits
	if g := m.Addr.GRH; g != nil {
		h[32], h[33], h[34], h[35] = 1, g.GIDIndex, g.HopLimit, g.TrafficClass
		copy(h[36:], g.GID[:])
		binary.BigEndian.PutUint32(h[52:], g.FlowLabel&0xfffff)
	}
	binary.NativeEndian.PutUint16(h[56:], m.Addr.PKeyIndex)
	return h
}

// payload returns a message as read(2) does: one by RMPP ends with the last segment's payload.
func payload(m *mad.Message) []byte {
	d := m.Data
	rmpp := d.Class() == mad.ClassSA || d.Class().Vendor2()
	if len(d) == mad.Size && rmpp && d.RMPPVersion() == 1 && d.RMPPFlags()&mad.RMPPActive != 0 && d.RMPPLength() > 0 {
		return d[:min(rmppHeader+uint64(d.RMPPLength()), mad.Size)]
	}
	return d
}

// queue hands a message to a process that waits for it, or keeps it. u is locked.
func (u *umadFile) queue(header [umadHeader]byte, data []byte) {
	if u.life.Err() != nil || len(u.messages) == maxUmadQueue || u.bytes+len(data) > maxUmadBytes {
		return
	}
	binary.NativeEndian.PutUint32(header[16:], uint32(u.headerSize()+len(data)))
	u.messages = append(u.messages, umadMessage{header, data})
	u.bytes += len(data)
	_, _ = unix.Write(int(u.pipe.Fd()), []byte{0})
	for len(u.waiting) > 0 && len(u.messages) > 0 {
		w := u.waiting[0]
		u.waiting = u.waiting[1:]
		if w.c.waits() { // otherwise the message is the next one's
			w.c.answer(u.deliver(w.c, w.room))
		} else {
			w.c.close()
		}
	}
}

func (u *umadFile) headerSize() int {
	if u.pkeys {
		return umadHeader
	}
	return umadOldHeader
}

// read hands out the oldest message, or waits for one.
func (u *umadFile) read(c *call, room uint64) result {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case room < uint64(u.headerSize()):
		return result{errno: syscall.EINVAL}
	case len(u.messages) > 0:
		return u.deliver(c, room)
	case c.nonblocking(c.fd(0)):
		return result{errno: syscall.EAGAIN}
	}
	u.waiting = append(u.waiting, umadRead{c, room})
	go c.attend(func() bool { return u.withdraw(c) })
	return result{later: true}
}

// withdraw removes a read that waits. It reports whether there was one.
func (u *umadFile) withdraw(c *call) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.waiting)
	u.waiting = slices.DeleteFunc(u.waiting, func(w umadRead) bool { return w.c == c })
	return len(u.waiting) < n
}

// deliver copies the oldest message to the process, with u locked. One that doesn't fit stays, and of
// one longer than a MAD the process gets the first segment.
func (u *umadFile) deliver(c *call, room uint64) result {
	m := u.messages[0]
	size := u.headerSize()
	first := min(len(m.data), mad.Size)
	if room < uint64(size+first) {
		return result{errno: syscall.EINVAL}
	}
	whole := append(append(make([]byte, 0, size+len(m.data)), m.header[:size]...), m.data...)
	if room < uint64(len(whole)) {
		if err := c.write(c.Args[1], whole[:size+first]); err != nil {
			return failed(err)
		}
		return result{errno: syscall.ENOSPC}
	}
	if err := c.write(c.Args[1], whole); err != nil {
		return failed(err)
	}
	u.messages = u.messages[1:]
	u.bytes -= len(m.data)
	_, _ = unix.Read(int(u.pipe.Fd()), make([]byte, 1))
	return done(len(whole), nil)
}

// take sends what a process wrote.
func (u *umadFile) take(_ *call, b []byte) result {
	u.mu.Lock()
	defer u.mu.Unlock()
	size := u.headerSize()
	if len(b) < size+rmppHeader {
		return result{errno: syscall.EINVAL}
	}
	order := binary.NativeEndian
	id := order.Uint32(b)
	if id >= umadAgents {
		return result{errno: syscall.EINVAL}
	}
	a := u.agents[id]
	if a == nil {
		return result{errno: syscall.EIO}
	}
	m := &mad.Message{Data: make(mad.MAD, max(len(b)-size, mad.Size))}
	copy(m.Data, b[size:])
	m.Addr = mad.Addr{QPN: binary.BigEndian.Uint32(b[20:]), QKey: binary.BigEndian.Uint32(b[24:]), LID: binary.BigEndian.Uint16(b[28:]), SL: b[30], PathBits: b[31]}
	if b[32] != 0 {
		m.Addr.GRH = &mad.GRH{GIDIndex: b[33], HopLimit: b[34], TrafficClass: b[35], GID: verbs.GID(b[36:52]), FlowLabel: binary.BigEndian.Uint32(b[52:]) & 0xfffff}
	}
	if u.pkeys {
		m.Addr.PKeyIndex = order.Uint16(b[56:])
	}
	class := m.Data.Class()
	active := a.rmpp && (class == mad.ClassSA || class.Vendor2()) && m.Data.RMPPFlags()&mad.RMPPActive != 0
	switch {
	case active:
		segment(m.Data, len(b)-size)
	case len(b)-size > mad.Size:
		return result{errno: syscall.EINVAL}
	}
	if m.Data.IsResponse() || m.Data.Method() == mad.TrapRepress {
		return done(len(b), a.Send(u.life, m))
	}
	request := umadRequest{class, uint32(m.Data.TID())}
	m.Data.SetTID(uint64(a.high)<<32 | uint64(request.tid))
	timeout, retries := order.Uint32(b[8:]), order.Uint32(b[12:])
	if timeout == 0 {
		return done(len(b), a.Send(u.life, m))
	}
	if u.pending[request] {
		return result{errno: syscall.EINVAL}
	}
	if len(u.pending) == maxUmadPending {
		return result{errno: syscall.ENOMEM}
	}
	u.pending[request] = true
	u.do(a, id, request, m, mad.Retry{Timeout: time.Duration(timeout) * time.Millisecond, Tries: int(min(retries, 1<<20)) + 1})
	return done(len(b), nil)
}

// segment writes the header of RMPP of a message whose segments the kernel makes.
func segment(d mad.MAD, length int) {
	header, size := 56, 200
	if d.Class().Vendor2() {
		header, size = 40, 216
	}
	class := header - rmppHeader
	payload := max(length-header, 0)
	d.SetRMPPVersion(1)
	d.SetRMPPType(mad.RMPPData)
	d.SetRMPPFlags(mad.RMPPActive | mad.RMPPFirst | mad.RMPPLast)
	d.SetRMPPSegment(1)
	d.SetRMPPLength(uint32(payload + max(1, (payload+size-1)/size)*class))
}

// do sends a request and queues its response, or that there was none. It returns once the request has
// been sent, so that requests leave in the order of their write(2), and responses of a node's own agents
// come back in that order. u is locked.
func (u *umadFile) do(a *umadAgent, id uint32, request umadRequest, m *mad.Message, retry mad.Retry) {
	type outcome struct {
		m   *mad.Message
		err error
	}
	ctx := &waitedFor{Context: u.life, waits: make(chan struct{})}
	over := make(chan outcome, 1)
	go func() {
		answer, err := a.Do(ctx, m, retry)
		over <- outcome{answer, err}
	}()
	finish := func(o outcome) {
		delete(u.pending, request)
		switch {
		case o.err == nil:
			o.m.Data.SetTID(m.Data.TID())
			u.queue(u.header(id, o.m), payload(o.m))
		case errors.Is(o.err, mad.ErrTimeout):
			h := u.header(id, m)
			binary.NativeEndian.PutUint32(h[4:], uint32(syscall.ETIMEDOUT))
			u.queue(h, m.Data[:madHeader])
		}
	}
	select {
	case o := <-over:
		finish(o)
	case <-ctx.waits:
		go func() {
			o := <-over
			u.mu.Lock()
			defer u.mu.Unlock()
			finish(o)
		}()
	}
}

// waitedFor is a context that closes waits when its user begins to wait for its end.
type waitedFor struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

// Done implements context.Context.
func (c *waitedFor) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waits) })
	return c.Context.Done()
}

// issmFile is an open node issmN. While it is open, the port is a subnet manager.
type issmFile struct {
	is     node
	port   mad.Port
	holder io.Closer
	memory *os.File // an empty file
	freed  func()
}

func (f *issmFile) node() node { return f.is }

func (f *issmFile) descriptor() *os.File { return f.memory }

func (f *issmFile) close() {
	if f.holder != nil {
		_ = f.holder.Close()
	}
	_ = f.port.Close()
	f.memory.Close()
	f.freed()
}

// openISSM makes the port a subnet manager. While another process has the node open it waits, or fails
// with EAGAIN.
func (c *call) openISSM(p *fabricPort, flags int) result {
	if freed, taken := p.takeISSM(); taken {
		if flags&unix.O_NONBLOCK != 0 {
			return result{errno: syscall.EAGAIN}
		}
		return c.later(context.Background(), func(ctx context.Context) (result, bool) {
			for taken {
				select {
				case <-freed:
				case <-ctx.Done():
				}
				if ctx.Err() != nil || !c.waits() {
					return result{}, false
				}
				freed, taken = p.takeISSM()
			}
			return c.openTakenISSM(p, flags), true
		})
	}
	return c.openTakenISSM(p, flags)
}

func (c *call) openTakenISSM(p *fabricPort, flags int) result {
	f := &issmFile{is: p.issm, freed: p.freeISSM}
	var err error
	if f.port, err = p.open(); err != nil {
		p.freeISSM()
		return failed(err)
	}
	if f.holder, err = f.port.OpenSM(); err != nil { // the subnet's own subnet manager is there
		f.close()
		return result{errno: syscall.EAGAIN}
	}
	own, theirs, err := c.files.memory()
	if err != nil {
		f.close()
		return failed(err)
	}
	defer theirs.Close()
	f.memory = own
	if err := c.files.add(theirs, f); err != nil {
		f.close()
		return failed(err)
	}
	return done(c.giveOurs(int(theirs.Fd()), flags&unix.O_CLOEXEC != 0))
}
