package fakefabric

import (
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/rdmacm"
)

// manager is a connection manager that connects the IDs of this process with each other.
type manager struct {
	f *Fabric

	mu       sync.Mutex // guards what follows, and the channels' events
	channels int        // open
	last     uint32
	port     uint16
	ids      map[uint32]*cmID
	refused  map[uint32]error         // by command
	held     map[uint32]chan struct{} // by command
}

func (m *manager) open() *channel {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.channels++
	return &channel{m: m, some: make(chan struct{}, 1), closed: make(chan struct{})}
}

// left lists IDs and channels.
func (m *manager) left() (left []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, handle := range slices.Sorted(maps.Keys(m.ids)) {
		left = append(left, fmt.Sprintf("ID %d", handle))
	}
	if m.channels > 0 {
		left = append(left, fmt.Sprintf("%d event channels", m.channels))
	}
	return left
}

// Fail has the connection manager refuse the next command of a kind, such as
// abi.RDMA_USER_CM_CMD_ACCEPT.
func (f *Fabric) Fail(cmd uint32, err error) {
	f.manager.mu.Lock()
	defer f.manager.mu.Unlock()
	f.manager.refused[cmd] = err
}

// Hold has the next command of a kind succeed and do nothing, so that the event which
// answers it never comes. The channel is closed when it was issued.
func (f *Fabric) Hold(cmd uint32) <-chan struct{} {
	f.manager.mu.Lock()
	defer f.manager.mu.Unlock()
	f.manager.held[cmd] = make(chan struct{})
	return f.manager.held[cmd]
}

// interfere does what Fail and Hold asked for.
func (m *manager) interfere(cmd uint32) (done bool, err error) {
	if err := m.refused[cmd]; err != nil {
		delete(m.refused, cmd)
		return true, err
	}
	if held := m.held[cmd]; held != nil {
		delete(m.held, cmd)
		close(held)
		return true, nil
	}
	return false, nil
}

// named finds the ID of a command whose body has its number at off.
func (m *manager) named(body []byte, off int) *cmID {
	return m.ids[view[uint32](body[off:])]
}

func (m *manager) command(ch *channel, cmd uint32, body, out []byte) error {
	if done, err := m.interfere(cmd); done {
		return err
	}
	switch cmd {
	case abi.RDMA_USER_CM_CMD_CREATE_ID:
		id := m.create(ch, view[abi.RdmaUcmCreateId](body).Uid)
		copy(out, abi.Bytes(&abi.RdmaUcmCreateIdResp{Id: id.handle}))
	case abi.RDMA_USER_CM_CMD_SET_OPTION:
	case abi.RDMA_USER_CM_CMD_BIND:
		id := m.named(body, 0)
		id.src = m.bound(parseSockaddr(view[abi.RdmaUcmBind](body).Addr))
	case abi.RDMA_USER_CM_CMD_LISTEN:
		m.named(body, 0).listens = true
	case abi.RDMA_USER_CM_CMD_RESOLVE_ADDR:
		m.resolveAddr(view[abi.RdmaUcmResolveAddr](body))
	case abi.RDMA_USER_CM_CMD_RESOLVE_ROUTE:
		m.named(body, 0).tell(rdmacm.EventRouteResolved, 0, nil)
	case abi.RDMA_USER_CM_CMD_QUERY:
		m.query(m.named(body, 8), out)
	case abi.RDMA_USER_CM_CMD_INIT_QP_ATTR:
		copy(out, abi.Bytes(m.qpAttr(view[abi.RdmaUcmInitQpAttr](body).QpState)))
	case abi.RDMA_USER_CM_CMD_CONNECT:
		c := view[abi.RdmaUcmConnect](body)
		return m.connect(m.ids[c.Id], &c.ConnParam)
	case abi.RDMA_USER_CM_CMD_ACCEPT:
		a := view[abi.RdmaUcmAccept](body)
		return m.accept(m.ids[a.Id], &a)
	case abi.RDMA_USER_CM_CMD_REJECT:
		m.named(body, 0).reject()
	case abi.RDMA_USER_CM_CMD_DISCONNECT:
		return m.disconnect(m.named(body, 0))
	case abi.RDMA_USER_CM_CMD_DESTROY_ID:
		id := m.named(body, 8)
		m.destroy(id)
		copy(out, abi.Bytes(&abi.RdmaUcmDestroyIdResp{EventsReported: id.told}))
	default:
		return syscall.EINVAL
	}
	return nil
}

func (m *manager) create(ch *channel, uid uint64) *cmID {
	m.last++
	id := &cmID{uid: uid, handle: m.last, channel: ch}
	m.ids[id.handle] = id
	return id
}

func (m *manager) destroy(id *cmID) {
	_ = m.disconnect(id)
	id.reject()
	delete(m.ids, id.handle)
	id.channel.forget(id)
}

func (m *manager) bound(a netip.AddrPort) netip.AddrPort {
	if a.Port() != 0 {
		return a
	}
	m.port++
	return netip.AddrPortFrom(a.Addr(), m.port)
}

func (m *manager) resolveAddr(r abi.RdmaUcmResolveAddr) {
	id := m.ids[r.Id]
	id.dst = parseSockaddr(r.DstAddr)
	id.src = m.bound(netip.AddrPortFrom(id.dst.Addr(), 0))
	id.tell(rdmacm.EventAddrResolved, 0, nil)
}

func (m *manager) query(id *cmID, out []byte) {
	var resp abi.RdmaUcmQueryAddrResp
	resp.SrcSize = putSockaddr(&resp.SrcAddr, id.src)
	if id.dst.IsValid() {
		resp.DstSize = putSockaddr(&resp.DstAddr, id.dst)
	}
	resp.PortNum, resp.IbdevIndex, resp.NodeGuid = 1, m.f.index, bits.ReverseBytes64(uint64(guid))
	copy(out, abi.Bytes(&resp))
}
