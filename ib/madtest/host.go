package madtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// Open opens a port of an adapter or a router, or port 0 of a switch, as a program on the node's host
// would. The Port sends and receives over the subnet. A port can be opened more than once.
func (s *Subnet) Open(node string, port int) (mad.Port, error) {
	n := s.byName[node]
	if n == nil || n.Port(port) == nil || n.sw != nil && port != 0 {
		return nil, failed("open", fmt.Sprintf("port %d of node %q", port, node), "no such port that a program can open: %w", os.ErrNotExist)
	}
	h := &host{subnet: s, port: n.ports[port], pending: map[uint64]chan *mad.Message{}, done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Programs on the same port must have different transaction IDs. The kernel ensures that for its agents.
	s.nextHost++
	h.tid = s.nextHost << 32
	h.port.hosts = append(h.port.hosts, h)
	return h, nil
}

// host is a program that has opened a port. The subnet's lock guards it.
type host struct {
	subnet  *Subnet
	port    *Port
	tid     uint64
	pending map[uint64]chan *mad.Message // outstanding requests
	agents  []*agent
	issm    *issm
	done    chan struct{} // closed by Close
}

func (h *host) request(m *mad.Message) bool {
	for _, a := range h.agents {
		c := a.config
		sameClass := c.Class == m.Data.Class()
		if sameClass && c.Methods.Has(m.Data.Method()) && (!c.Class.Vendor2() || c.OUI == m.Data.OUI()) {
			select {
			case a.requests <- m:
			default: // the queue is full; the kernel drops such requests too
			}
			return true
		}
	}
	return false
}

func (h *host) response(m *mad.Message) bool {
	c, ok := h.pending[m.Data.TID()]
	if ok {
		delete(h.pending, m.Data.TID())
		c <- m
	}
	return ok
}

// Attr implements mad.Port.
func (h *host) Attr() (mad.PortAttr, error) {
	h.subnet.mu.Lock()
	defer h.subnet.mu.Unlock()
	select {
	case <-h.done:
		return mad.PortAttr{}, h.error("query", net.ErrClosed)
	default:
	}
	p, n := h.port, h.port.node
	attr := mad.PortAttr{
		Device: "subnet0", Port: p.num, NumPorts: n.info.NumPorts, DeviceType: "subnet in software", Firmware: "1", Hardware: "a1",
		NodeType: n.info.Type, NodeGUID: n.info.NodeGUID, SystemGUID: n.info.SystemGUID, PortGUID: p.guid,
		LinkLayer: "InfiniBand", State: p.info.LinkState, PhysState: p.info.PhysLinkState,
		LID: p.info.LID, LMC: p.info.LMC, SMLID: p.info.SMLID, SMSL: p.info.SMSL, CapMask: p.info.CapMask,
		Rate: gbps(&p.info), GIDs: []verbs.GID{p.gid()}, PKeys: append([]uint16(nil), p.pkeys...),
	}
	if len(attr.PKeys) == 0 {
		attr.PKeys = []uint16{defaultPKey}
	}
	attr.RateText = fmt.Sprintf("%g Gb/sec (%dX %s)", attr.Rate, lanes(p.info.LinkWidthActive), p.generation())
	return attr, nil
}

func lanes(w mad.LinkWidth) int {
	return map[mad.LinkWidth]int{mad.Width1X: 1, mad.Width2X: 2, mad.Width4X: 4, mad.Width8X: 8, mad.Width12X: 12}[w]
}

func (p *Port) generation() string {
	info := &p.info
	switch {
	case info.LinkSpeedExtActive2 != 0:
		return "XDR"
	case p.mlnx.LinkSpeedActive != 0:
		return "FDR10"
	}
	if ext := map[uint8]string{1: "FDR", 2: "EDR", 4: "HDR", 8: "NDR"}[info.LinkSpeedExtActive]; ext != "" {
		return ext
	}
	return map[uint8]string{1: "SDR", 2: "DDR", 4: "QDR"}[info.LinkSpeedActive]
}

// Register implements mad.Port.
func (h *host) Register(c mad.AgentConfig) (mad.Agent, error) {
	if c.Version == 0 {
		c.Version = c.Class.Version()
	}
	if c.Class.Vendor2() && (c.OUI == 0 || c.OUI>>24 != 0) {
		return nil, h.error("register agent of", fmt.Errorf("%v needs an OUI of 24 bits: %w", c.Class, syscall.EINVAL))
	}
	h.subnet.mu.Lock()
	defer h.subnet.mu.Unlock()
	select {
	case <-h.done:
		return nil, h.error("register agent of", net.ErrClosed)
	default:
	}
	for _, e := range h.port.hosts {
		other, ok := e.(*host)
		if !ok {
			continue
		}
		for _, a := range other.agents {
			same := a.config.Class == c.Class && a.config.OUI == c.OUI
			if same && (a.config.Methods[0]&c.Methods[0] != 0 || a.config.Methods[1]&c.Methods[1] != 0) {
				return nil, h.error("register agent of", fmt.Errorf("another agent receives these methods of %v: %w", c.Class, syscall.EBUSY))
			}
		}
	}
	const queued = 64
	a := &agent{host: h, config: c, requests: make(chan *mad.Message, queued), done: make(chan struct{})}
	h.agents = append(h.agents, a)
	return a, nil
}

// OpenSM implements mad.Port.
func (h *host) OpenSM() (io.Closer, error) {
	h.subnet.mu.Lock()
	defer h.subnet.unlock()
	select {
	case <-h.done:
		return nil, h.error("open subnet manager of", net.ErrClosed)
	default:
	}
	if h.port.info.CapMask&capIsSM != 0 {
		return nil, h.error("open subnet manager of", syscall.EBUSY)
	}
	h.issm = &issm{host: h}
	h.port.info.CapMask |= capIsSM
	h.port.trapLocalChange(false)
	return h.issm, nil
}

type issm struct{ host *host }

func (i *issm) Close() error {
	h := i.host
	h.subnet.mu.Lock()
	defer h.subnet.unlock()
	if h.issm != i {
		return h.error("close subnet manager of", net.ErrClosed)
	}
	h.endSM()
	return nil
}

func (h *host) endSM() {
	h.issm = nil
	h.port.info.CapMask &^= capIsSM
	h.port.trapLocalChange(false)
}

// Close implements mad.Port.
func (h *host) Close() error {
	h.subnet.mu.Lock()
	defer h.subnet.unlock()
	select {
	case <-h.done:
		return h.error("close", net.ErrClosed)
	default:
	}
	close(h.done)
	for _, a := range h.agents {
		a.end()
	}
	h.agents = nil
	if h.issm != nil {
		h.endSM()
	}
	h.port.detach(h)
	return nil
}

func (p *Port) detach(e endpoint) {
	for i, h := range p.hosts {
		if h == e {
			p.hosts = append(p.hosts[:i:i], p.hosts[i+1:]...)
			return
		}
	}
}

func (h *host) error(op string, err error) error {
	return &verbs.Error{Op: op, Object: fmt.Sprintf("port %d", h.port.num), Device: h.port.node.name, Err: err}
}

// agent implements mad.Agent.
type agent struct {
	host     *host
	config   mad.AgentConfig
	requests chan *mad.Message
	once     sync.Once
	done     chan struct{}
}

func (a *agent) end() { a.once.Do(func() { close(a.done) }) }

// Close implements mad.Agent.
func (a *agent) Close() error {
	h := a.host
	h.subnet.mu.Lock()
	defer h.subnet.mu.Unlock()
	for i, other := range h.agents {
		if other == a {
			h.agents = append(h.agents[:i:i], h.agents[i+1:]...)
			a.end()
			return nil
		}
	}
	return h.error("close agent of", net.ErrClosed)
}

// Do implements mad.Agent.
func (a *agent) Do(ctx context.Context, req *mad.Message, retry mad.Retry) (*mad.Message, error) {
	if len(req.Data) < mad.Size {
		return nil, a.failed(req, syscall.EINVAL)
	}
	if retry.Timeout == 0 {
		retry.Timeout = mad.DefaultTimeout
	}
	if retry.Tries == 0 {
		retry.Tries = mad.DefaultTries
	}
	answer := make(chan *mad.Message, 1)
	tid := a.begin(answer)
	defer a.forget(tid)
	var timer *time.Timer
	for range retry.Tries {
		if err := a.transmit(ctx, req, tid); err != nil {
			return nil, err
		}
		select {
		case m := <-answer: // a node's own agent answers at once, so no timer is needed
			return m, nil
		default:
		}
		if timer == nil {
			timer = time.NewTimer(retry.Timeout)
			defer timer.Stop()
		} else {
			timer.Reset(retry.Timeout)
		}
		select {
		case m := <-answer:
			return m, nil
		case <-timer.C:
		case <-ctx.Done():
			return nil, a.failed(req, ctx.Err())
		case <-a.done:
			return nil, a.failed(req, net.ErrClosed)
		}
	}
	return nil, a.failed(req, mad.ErrTimeout)
}

func (a *agent) begin(answer chan *mad.Message) uint64 {
	h := a.host
	h.subnet.mu.Lock()
	defer h.subnet.mu.Unlock()
	h.tid = h.tid&^0xffffffff | uint64(uint32(h.tid)+1)
	h.pending[h.tid] = answer
	return h.tid
}

func (a *agent) forget(tid uint64) {
	a.host.subnet.mu.Lock()
	defer a.host.subnet.mu.Unlock()
	delete(a.host.pending, tid)
}

// Send implements mad.Agent.
func (a *agent) Send(ctx context.Context, m *mad.Message) error {
	if len(m.Data) < mad.Size {
		return a.failed(m, syscall.EINVAL)
	}
	return a.transmit(ctx, m, m.Data.TID())
}

// failed returns the error of a message.
func (a *agent) failed(m *mad.Message, err error) error {
	return m.Failed(a.host.port.node.name, a.host.port.num, err)
}

// transmit sends a copy of a MAD with a transaction ID.
func (a *agent) transmit(ctx context.Context, m *mad.Message, tid uint64) error {
	if err := ctx.Err(); err != nil {
		return a.failed(m, err)
	}
	select {
	case <-a.done:
		return a.failed(m, net.ErrClosed)
	default:
	}
	sent := *m
	sent.Data = append(mad.MAD(nil), m.Data...)
	sent.Data.SetTID(tid)
	s := a.host.subnet
	s.mu.Lock()
	defer s.unlock()
	s.send(a.host.port, &sent)
	return nil
}

// Receive implements mad.Agent.
func (a *agent) Receive(ctx context.Context) (*mad.Message, error) {
	select {
	case m := <-a.requests:
		return m, nil
	default:
	}
	select {
	case m := <-a.requests:
		return m, nil
	case <-ctx.Done():
		return nil, a.host.error("receive at", ctx.Err())
	case <-a.done:
		return nil, a.host.error("receive at", net.ErrClosed)
	}
}
