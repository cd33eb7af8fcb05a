package rdmatest

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/verbs"
)

// manager is the connection manager of all hosts. The fabric's lock guards it.
type manager struct {
	f        *Fabric
	channels map[uint32]*channel // by descriptor
	lastFD   uint32
	lastID   uint32
	lastPort uint16
	ids      map[uint32]*cmID
	bound    map[binding]*cmID
	far      map[farKey]*cmID // that stand for peers outside that asked for a connection
	secret   uint32           // makes the numbers of connections that peers outside see
	orphans  []string         // IDs that existed when their channel was closed
}

// binding is an address and port that at most one ID may have.
type binding struct {
	addr     netip.AddrPort
	datagram bool
}

// lastFixed is the port before the first one that the manager assigns.
const lastFixed = 40000

func (m *manager) init(f *Fabric) {
	*m = manager{f: f, lastFD: 1 << 21, lastPort: lastFixed, channels: make(map[uint32]*channel), ids: make(map[uint32]*cmID), bound: make(map[binding]*cmID), far: make(map[farKey]*cmID), secret: rand.Uint32()}
}

func (m *manager) open() *channel {
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.lastFD++
	ch := &channel{m: m, fd: m.lastFD, owner: os.Getpid(), some: make(chan struct{}, 1), closed: make(chan struct{})}
	m.channels[ch.fd] = ch
	return ch
}

// left lists the IDs and channels that have not been closed.
func (m *manager) left() (left []string) {
	left = slices.Clone(m.orphans)
	for _, handle := range slices.Sorted(maps.Keys(m.ids)) {
		if id := m.ids[handle]; !id.dead {
			left = append(left, id.String())
		}
	}
	n := 0
	for _, ch := range m.channels {
		if !m.isOfDead(ch) {
			n++
		}
	}
	if n > 0 {
		left = append(left, fmt.Sprintf("%d event channels", n))
	}
	return left
}

// isOfDead reports whether an ID of a killed program is on the channel, which need not be closed
// then.
func (m *manager) isOfDead(ch *channel) bool {
	for _, id := range m.ids {
		if id.dead && id.channel == ch {
			return true
		}
	}
	return false
}

// abandon destroys the IDs of a channel that is closed, as the kernel does.
func (m *manager) abandon(ch *channel) {
	for _, handle := range slices.Sorted(maps.Keys(m.ids)) {
		if id := m.ids[handle]; id != nil && id.channel == ch {
			if !id.dead {
				m.orphans = append(m.orphans, id.String())
			}
			m.destroy(id)
		}
	}
}

// idAt has the offset of the ID in the body of each command. Commands without an ID are
// missing.
var idAt = map[CMCommand]int{CMDestroyID: 8, CMQuery: 8, CMInitQPAttr: 8, CMConnect: connectID, CMAccept: acceptID, CMJoinMcast: 16,
	CMMigrateID: 8, CMSetOption: 8}

const (
	connectID = 272 // after the parameters
	acceptID  = 8 + connectID
)

// leastAnswer has the room for an answer that commands want, as in ucma.c.
var leastAnswer = map[CMCommand]int{CMCreateID: 4, CMDestroyID: 4, CMInitQPAttr: len(abi.Bytes(&abi.IbUverbsQpAttr{})), CMLeaveMcast: 4,
	abi.RDMA_USER_CM_CMD_QUERY_ROUTE: 1}

// refusal returns the error of a command that is refused whatever its ID, or nil.
func refusal(cmd CMCommand, body, out []byte) error {
	switch {
	case cmd == abi.RDMA_USER_CM_CMD_GET_OPTION:
		return syscall.ENOSYS
	case len(out) < leastAnswer[cmd]:
		return syscall.ENOSPC
	case idAt[cmd] == 0 && !slices.Contains(withoutID, cmd):
		return syscall.EINVAL
	case cmd == CMBind && !isSockaddr(view[abi.RdmaUcmBind](body).Addr),
		cmd == CMResolveAddr && !isSockaddr(view[abi.RdmaUcmResolveAddr](body).DstAddr),
		cmd == CMJoinMcast && !isSockaddr(view[abi.RdmaUcmJoinMcast](body).Addr),
		cmd == CMConnect && view[abi.RdmaUcmConnect](body).ConnParam.Valid == 0:
		return syscall.EINVAL
	case cmd == CMCreateID:
		switch view[abi.RdmaUcmCreateId](body).Ps {
		case abi.RDMA_PS_TCP, abi.RDMA_PS_UDP, abi.RDMA_PS_IB, abi.RDMA_PS_IPOIB:
		default:
			return syscall.EINVAL
		}
	}
	return nil
}

// withoutID are the commands whose ID is the first field, or which have none.
var withoutID = []CMCommand{CMCreateID, CMBind, CMListen, CMResolveAddr, CMResolveRoute, CMReject, CMDisconnect, CMLeaveMcast, abi.RDMA_USER_CM_CMD_NOTIFY}

func (m *manager) command(ch *channel, cmd CMCommand, body, out []byte) error {
	if err := refusal(cmd, body, out); err != nil {
		return err
	}
	switch cmd {
	case CMCreateID:
		id := m.create(ch, view[abi.RdmaUcmCreateId](body))
		copy(out, abi.Bytes(&abi.RdmaUcmCreateIdResp{Id: id.handle}))
		return nil
	case CMLeaveMcast:
		return m.leave(view[uint32](body[8:]), out)
	}
	id := m.ids[view[uint32](body[idAt[cmd]:])]
	switch {
	case id == nil:
		return syscall.ENOENT
	case id.dropped && cmd != CMDestroyID:
		return syscall.ENXIO
	}
	switch cmd {
	case abi.RDMA_USER_CM_CMD_NOTIFY:
		if !id.begun && !id.listens {
			return syscall.EINVAL
		}
		return nil
	case CMSetOption:
		return id.setOption(view[abi.RdmaUcmSetOption](body), out)
	case CMBind:
		return m.bind(id, parseSockaddr(view[abi.RdmaUcmBind](body).Addr))
	case CMListen:
		return id.listen(view[abi.RdmaUcmListen](body).Backlog)
	case CMResolveAddr:
		return m.resolveAddr(id, view[abi.RdmaUcmResolveAddr](body))
	case CMResolveRoute:
		return id.resolveRoute()
	case CMQuery:
		return id.query(view[abi.RdmaUcmQuery](body).Option, out)
	case CMInitQPAttr:
		return id.qpAttr(view[abi.RdmaUcmInitQpAttr](body).QpState, out)
	case CMConnect:
		c := view[abi.RdmaUcmConnect](body)
		return m.connect(id, &c.ConnParam)
	case CMAccept:
		a := view[abi.RdmaUcmAccept](body)
		return m.accept(id, &a)
	case CMReject:
		r := view[abi.RdmaUcmReject](body)
		return m.reject(id, r.PrivateData[:r.PrivateDataLen])
	case CMDisconnect:
		return m.disconnect(id)
	case CMMigrateID:
		return m.migrate(id, ch, out)
	case CMJoinMcast:
		return m.join(id, view[abi.RdmaUcmJoinMcast](body), out)
	case CMDestroyID:
		m.destroy(id)
		copy(out, abi.Bytes(&abi.RdmaUcmDestroyIdResp{EventsReported: id.reported}))
		return nil
	}
	return syscall.EINVAL
}

func (m *manager) create(ch *channel, c abi.RdmaUcmCreateId) *cmID {
	m.lastID++
	id := &cmID{m: m, uid: c.Uid, handle: m.lastID, channel: ch, datagram: c.Ps == abi.RDMA_PS_UDP || c.Ps == abi.RDMA_PS_IPOIB}
	m.ids[id.handle] = id
	return id
}

func (m *manager) destroy(id *cmID) {
	if !id.dropped {
		m.end(id)
	}
	delete(m.ids, id.handle)
	m.forgetOutside(id)
	id.channel.forget(id)
}

// migrate moves an ID and its events to the channel that the command came by.
func (m *manager) migrate(id *cmID, to *channel, out []byte) error {
	from := id.channel
	id.channel = to
	for _, ev := range from.events {
		if ev.id == id {
			to.report(ev)
		}
	}
	if from != to {
		from.events = slices.DeleteFunc(from.events, func(ev event) bool { return ev.id == id })
		from.changed()
	}
	copy(out, abi.Bytes(&abi.RdmaUcmMigrateResp{EventsReported: id.reported}))
	return nil
}

// ended reports the end of a connection to its ID.
func (m *manager) ended(id *cmID) {
	if id.state == connEstablished {
		id.settle(connOver)
		id.report(abi.RDMA_CM_EVENT_DISCONNECTED, 0, nil)
	}
}

// broken reports to both ends that the connection of two queue pairs is broken.
func (m *manager) broken(pairs ...*pair) {
	for _, handle := range slices.Sorted(maps.Keys(m.ids)) {
		id := m.ids[handle]
		for _, p := range pairs {
			if id.d == p.d && id.qpn == p.qp.Num {
				m.ended(id)
			}
		}
	}
}

// drop ends the IDs of devices: they receive the event DEVICE_REMOVAL and no other, and a program can
// only destroy them.
//
// C: ucma_close_id
func (m *manager) drop(of func(*Device) bool) (ids []*cmID) {
	for _, handle := range slices.Sorted(maps.Keys(m.ids)) {
		if id := m.ids[handle]; id.d != nil && of(id.d) && !id.dropped {
			id.report(abi.RDMA_CM_EVENT_DEVICE_REMOVAL, 0, nil)
			id.dropped = true
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		m.end(id)
	}
	return ids
}

// end ends all that the ID does.
func (m *manager) end(id *cmID) {
	m.finish(id)
	joins := id.joins
	id.joins = nil
	for _, j := range joins {
		m.leaveOutside(j)
	}
	m.unbind(id)
}

// killed ends the IDs of a host's programs, as the kernel does when their files are closed. The
// goroutines of the test that represent the programs receive an event that the device is gone.
func (m *manager) killed(h *Host) {
	for _, id := range m.drop(func(d *Device) bool { return d.host == h }) {
		id.dead = true
	}
}

func (m *manager) bind(id *cmID, a netip.AddrPort) error {
	d := m.f.owner(a.Addr().Unmap())
	switch {
	case d == nil:
		return syscall.EADDRNOTAVAIL
	case d.removed || d.info.noCM:
		return syscall.ENODEV
	case id.src.IsValid():
		return syscall.EINVAL
	case a.Port() == 0:
		a = m.anyPort(id, a.Addr())
	case m.isBound(id, a):
		return syscall.EADDRINUSE
	}
	id.d = d
	m.setSource(id, a)
	return nil
}

// setSource binds the ID to an address.
func (m *manager) setSource(id *cmID, a netip.AddrPort) {
	id.src = a
	if !m.isBound(id, a) {
		m.bound[id.binding()] = id
	}
}

// unbind releases the address of the ID.
func (m *manager) unbind(id *cmID) {
	if m.bound[id.binding()] == id {
		delete(m.bound, id.binding())
	}
}

func (id *cmID) binding() binding { return binding{id.src, id.datagram} }

// anyPort returns the next free port, starting again from the first after the last. If a host
// has used up all ports, its IDs share the last one.
func (m *manager) anyPort(id *cmID, a netip.Addr) netip.AddrPort {
	for range math.MaxUint16 - lastFixed {
		if m.lastPort++; m.lastPort <= lastFixed {
			m.lastPort = lastFixed + 1
		}
		if !m.isBound(id, netip.AddrPortFrom(a, m.lastPort)) {
			break
		}
	}
	return netip.AddrPortFrom(a, m.lastPort)
}

func (m *manager) isBound(id *cmID, a netip.AddrPort) bool {
	return m.bound[binding{a, id.datagram}] != nil
}

// channel is an event channel of the manager. It implements kernel.CM. The fabric's lock guards
// it.
type channel struct {
	m      *manager
	fd     uint32
	owner  int // the process that opened it
	events []event
	watch  func(waiting int)
	some   chan struct{}
	closed chan struct{}
}

type event struct {
	id    *cmID
	join  *join // of a membership
	child *cmID // the ID of the connect request
	resp  abi.RdmaUcmEventResp
}

func view[T any](b []byte) (t T) { copy(abi.Bytes(&t), b); return t }

func (ch *channel) report(ev event) {
	ch.events = append(ch.events, ev)
	ch.changed()
	select {
	case ch.some <- struct{}{}:
	default:
	}
}

// forget drops the events of a destroyed ID, and the connect requests that have not been reported
// to it.
func (ch *channel) forget(id *cmID) {
	var children []*cmID
	ch.events = slices.DeleteFunc(ch.events, func(ev event) bool {
		if ev.id == id && ev.child != nil {
			children = append(children, ev.child)
		}
		return ev.id == id
	})
	ch.changed()
	for _, child := range children {
		if ch.m.ids[child.handle] == child {
			ch.m.destroy(child)
		}
	}
}

// Watch implements kernel.Watchable.
func (ch *channel) Watch(owner int, changed func(waiting int)) {
	ch.m.f.mu.Lock()
	defer ch.m.f.mu.Unlock()
	ch.owner, ch.watch = owner, changed
}

func (ch *channel) changed() {
	if ch.watch != nil {
		ch.watch(len(ch.events))
	}
}

// Await waits for an event and returns the oldest one in out.
func (ch *channel) Await(ctx context.Context, _, out []byte) error {
	for !ch.next(out) {
		select {
		case <-ch.some:
		case <-ctx.Done():
			if ch.next(out) {
				return nil
			}
			return ctx.Err()
		case <-ch.closed:
			return os.ErrClosed
		}
	}
	return nil
}

func (ch *channel) next(out []byte) bool {
	f := ch.m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(ch.events) == 0 {
		return false
	}
	ev := ch.events[0]
	ch.events = ch.events[1:]
	ch.changed()
	ev.id.reported++
	if ev.join != nil {
		ev.join.reported++
	}
	copy(out, abi.Bytes(&ev.resp))
	return true
}

// Command carries out a command.
func (ch *channel) Command(in, out []byte) error {
	f := ch.m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	cmd := CMCommand(view[abi.RdmaUcmCmdHdr](in).Cmd)
	if done, err := f.faults.interfere(cmd); done {
		return err
	}
	return ch.m.command(ch, cmd, in[8:], out)
}

// Descriptor calls use with the channel's number, which is only valid in MIGRATE_ID.
func (ch *channel) Descriptor(use func(uint32)) error { use(ch.fd); return nil }

// Close closes the channel and destroys its IDs.
func (ch *channel) Close() error {
	f := ch.m.f
	f.mu.Lock()
	defer f.mu.Unlock()
	ch.m.abandon(ch)
	delete(ch.m.channels, ch.fd)
	close(ch.closed)
	return nil
}

// asKernel is the kernel that a fabric is for packages uverbs and rdmacm.
type asKernel struct{ *Fabric }

func (k asKernel) Netlink() netlinkrdma.Kernel { return k }

func (k asKernel) Owns(a netip.Addr) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.owner(a.Unmap()) != nil
}

func (k asKernel) OpenCM() (kernel.CM, error) { return k.manager.open(), nil }

const nodes = "/dev/infiniband/rdmatest"

func (d *Device) node() string { return fmt.Sprintf("%s%d", nodes, d.index) }

func (k asKernel) OpenDevice(path string, _ uint64) (ioctl.File, error) {
	for _, d := range k.devices {
		if d.node() == path && !d.isRemoved() {
			return d.open()
		}
	}
	return nil, syscall.ENOENT
}

func (d *Device) guid() verbs.GUID { return verbs.GUID(bits.ReverseBytes64(d.verbs.NodeGUID)) }

func reversed(g verbs.GUID) uint64 { return bits.ReverseBytes64(uint64(g)) }

// Execute answers a request of netlink. As in a kernel, a device that is being removed is
// off the list and still found by its index.
func (k asKernel) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if changes(req.Op) {
		return nil, syscall.EOPNOTSUPP
	}
	n := nltest.Kernel{CharDevs: make(map[uint32]netlinkrdma.CharDev), Objects: make(map[uint32]nltest.Objects),
		Statistics: make(map[nltest.PortID]nltest.Statistics), System: netlinkrdma.System{NetnsMode: netlinkrdma.NetnsShared, CopyOnFork: true}}
	for _, d := range k.devices {
		if d.isRemoved() && (req.Dump || d.verbs.IsGone()) {
			continue
		}
		info := &d.info
		n.Devices = append(n.Devices, netlinkrdma.Device{Index: d.index, Name: d.name, NodeGUID: d.guid(), SysImageGUID: d.guid(), Ports: 1,
			NodeType: info.node, Protocol: info.protocol, FWVersion: d.firmware()})
		n.Ports = append(n.Ports, d.port())
		if lists(req.Op) {
			n.Objects[d.index] = d.objects()
		}
		n.Statistics[nltest.PortID{Device: d.index, Port: 1}] = nltest.Statistics{}
		n.CharDevs[d.index] = netlinkrdma.CharDev{Name: strings.TrimPrefix(d.node(), "/dev/infiniband/"), ABI: info.abi, DriverID: info.driver}
	}
	return n.Execute(req)
}

// firmware returns the version of the firmware, or nothing for a device without.
func (d *Device) firmware() string {
	v := d.verbs.Limits.Device.FwVer
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%04d", v>>32, v>>16&0xffff, v&0xffff)
}

func (d *Device) port() netlinkrdma.Port {
	a := d.verbs.Port()
	p := netlinkrdma.Port{DeviceIndex: d.index, DeviceName: d.name, Index: 1, State: verbs.PortState(a.State), PhysState: verbs.PhysState(a.PhysState)}
	if d.subnet != nil {
		p.InfiniBand, p.CapFlags, p.LID, p.SMLID, p.LMC = true, uint64(a.PortCapFlags), uint32(a.Lid), uint32(a.SmLid), a.Lmc
		p.SubnetPrefix = verbs.GUID(binary.BigEndian.Uint64(d.subnet.State().GIDs[0][:]))
	}
	return p
}
