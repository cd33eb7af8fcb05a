package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// Device is a device. Its openings share it.
type Device struct {
	// NodeGUID is in network order.
	NodeGUID uint64

	driver     *Driver
	Shared     any // state of the driver's model that all openings share
	Limits     Limits
	violations violations

	mu       sync.Mutex
	qpns     Numbers            // relative to the driver's first number
	qps      map[uint32]*QP     // by number
	uses     map[uint32]uint32  // of a driver with QPSlots: how often a slot was used
	domains  map[uint64]*domain // XRC domains, by inode of the shared file
	srqs     uint32             // number of XRC SRQs that were created
	openings []*Kernel
	tracked  atomic.Uint32          // the last number of an object
	GIDTable []abi.IbUverbsGidEntry // of port 1
	down     atomic.Bool
	removed  atomic.Bool
	roce     bool // whether it is on RoCE v2, unless it is on InfiniBand

	// Subnet, if there is one, returns the attributes of port 1 with what a subnet on InfiniBand sets there, and the GID
	// table. It is set before the device is opened.
	Subnet func(abi.IbUverbsQueryPortResp) (port abi.IbUverbsQueryPortResp, gids [][16]byte)
}

// NewDevice returns a device with a driver.
func NewDevice(driver uint32) *Device {
	d := &Device{driver: driverOf(driver), qps: make(map[uint32]*QP), uses: make(map[uint32]uint32), domains: make(map[uint64]*domain)}
	d.Limits = d.driver.Limits()
	if d.driver.NewShared != nil {
		d.Shared = d.driver.NewShared()
	}
	d.GIDTable, d.NodeGUID = d.Limits.GIDs, d.Limits.Device.NodeGuid
	d.roce = d.driver.RoCE
	return d
}

// Open returns the kernel's side of a new file of the device.
func (d *Device) Open() *Kernel {
	d.forget()
	k := &Kernel{
		Inode: inode, Owner: os.Getpid(), Device: d, id: d.tracked.Add(1), Own: d.driver.Own, objects: make(map[uint32]*object),
		files: make(map[int32]*channel), Offers: make(map[int64]Offer), calls: make(map[string]int),
		keys: make(map[uint32]*MR), windows: make(map[uint32]*MW),
	}
	k.User, k.lent.k = &k.lent, k
	k.Model = d.driver.New(k)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.openings = append(d.openings, k)
	return k
}

// forget removes closed openings without leaked objects, so that a program can open the device any
// number of times.
func (d *Device) forget() {
	for _, k := range d.Openings() {
		if k.isOpen() || len(k.Leaks()) > 0 { // Leaks is slow, and there may be many openings
			continue
		}
		d.mu.Lock()
		d.openings = slices.DeleteFunc(d.openings, func(other *Kernel) bool { return other == k })
		d.mu.Unlock()
	}
}

// Openings returns the openings that are open or have leaked objects, oldest first.
func (d *Device) Openings() []*Kernel {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.openings)
}

// QP returns the queue pair with a number, in any opening, or nil.
func (d *Device) QP(num uint32) *QP {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.qps[num]
}

// Lock locks the state that the openings share.
func (d *Device) Lock() { d.mu.Lock() }

// Unlock unlocks the state that the openings share.
func (d *Device) Unlock() { d.mu.Unlock() }

// Note adds a violation.
func (d *Device) Note(format string, args ...any) { d.violations.note(format, args...) }

// Add assigns the lowest free number to a queue pair.
func (d *Device) Add(qp *QP) {
	d.mu.Lock()
	defer d.mu.Unlock()
	qp.Num = d.firstQPN() + d.qpns.Take(func(i uint32) bool { return d.qps[d.numbered(d.firstQPN()+i)] != nil })
	if d.driver.QPSlots > 0 {
		d.uses[qp.Num]++
		qp.Num = d.numbered(qp.Num)
	}
	d.qps[qp.Num] = qp
}

// numbered returns the number of the newest QP of a slot. The numbers have 16 bits. If the driver has no slots, that is
// the slot itself.
func (d *Device) numbered(slot uint32) uint32 {
	if d.driver.QPSlots == 0 {
		return slot
	}
	return uint32(uint16((d.uses[slot]-1)*d.driver.QPSlots | slot))
}

// isFull reports whether all slots are taken.
func (d *Device) isFull() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.driver.QPSlots > 0 && uint32(len(d.qps)) >= d.driver.QPSlots-d.firstQPN()
}

// slot is the inverse of numbered.
func (d *Device) slot(num uint32) uint32 {
	if d.driver.QPSlots == 0 {
		return num
	}
	return num & (d.driver.QPSlots - 1)
}

func (d *Device) firstQPN() uint32 {
	return max(d.driver.FirstQPN, 1)
}

// Withhold takes the number of a queue pair that gets one later, by Add.
func (d *Device) Withhold(qp *QP) {
	d.remove(qp)
	qp.Num = 0
}

func (d *Device) remove(qp *QP) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if qp.Num == 0 {
		return
	}
	delete(d.qps, qp.Num)
	d.qpns.Free(d.slot(qp.Num) - d.firstQPN())
}

// SetInfiniBand puts the device on InfiniBand, where port 1 has 1<<lmc LIDs from lid on, and queue pairs
// have alternate paths. It comes before SetGIDs, and before the device is opened.
func (d *Device) SetInfiniBand(lid uint16, lmc uint8) {
	p := &d.Limits.Port
	p.LinkLayer, p.Lid, p.Lmc, p.Flags = LinkInfiniBand, lid, lmc, 0
	d.Limits.Device.DeviceCapFlags |= abi.IB_UVERBS_DEVICE_AUTO_PATH_MIG
}

// SetRoCE puts a device that supports both iWARP and RoCE v2 on RoCE v2. It must be called before SetGIDs
// and before the device is opened.
func (d *Device) SetRoCE() {
	d.roce = true
	d.driver.OnRoCE(&d.Limits)
}

// IsRoCE reports whether the device is on RoCE v2.
func (d *Device) IsRoCE() bool { return d.roce && !d.IsInfiniBand() }

// LinkInfiniBand is the link layer IBV_LINK_LAYER_INFINIBAND.
const LinkInfiniBand = 1

// IsInfiniBand reports whether the device is on InfiniBand.
func (d *Device) IsInfiniBand() bool { return d.Limits.Port.LinkLayer == LinkInfiniBand }

// SetGIDs replaces the GID table, which begins with the GID of index 0. The table has no entry for a GID that is zero.
func (d *Device) SetGIDs(gids ...[16]byte) {
	typ := uint32(0)
	if d.IsRoCE() {
		typ = abi.IB_UVERBS_GID_TYPE_ROCE_V2
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.GIDTable = entries(gids, typ)
}

func entries(gids [][16]byte, typ uint32) (table []abi.IbUverbsGidEntry) {
	for i, gid := range gids {
		if gid != [16]byte{} {
			table = append(table, GIDEntry(gid, uint32(i), typ))
		}
	}
	return table
}

// GIDs returns the GID table. An index without an entry has a GID that is zero.
func (d *Device) GIDs() (gids [][16]byte) {
	for _, e := range d.table() {
		for uint32(len(gids)) < e.GidIndex {
			gids = append(gids, [16]byte{})
		}
		gids = append(gids, gidOf(&e))
	}
	return gids
}

func (d *Device) table() []abi.IbUverbsGidEntry {
	if d.Subnet != nil {
		_, gids := d.Subnet(d.Limits.Port)
		return entries(gids, 0)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.GIDTable
}

func gidOf(e *abi.IbUverbsGidEntry) (gid [16]byte) {
	binary.NativeEndian.PutUint64(gid[:], e.Gid[0])
	binary.NativeEndian.PutUint64(gid[8:], e.Gid[1])
	return gid
}

// SetLink takes port 1 down or brings it up, and raises the event in all openings.
func (d *Device) SetLink(up bool) {
	changed := d.down.Swap(!up) == up
	event := uint32(abi.IB_EVENT_PORT_ERR)
	if up {
		event = abi.IB_EVENT_PORT_ACTIVE
	}
	if changed {
		d.Raise(event)
	}
}

// Raise raises an asynchronous event of port 1, an IB_EVENT_ number, in all openings.
func (d *Device) Raise(event uint32) {
	for _, k := range d.Openings() {
		k.Async(1, event)
	}
}

// Up reports whether port 1 is up.
func (d *Device) Up() bool { return d.Port().State == portActive }

// The states of port 1, and that of its link, as in struct ibv_port_attr.
const (
	portDown, portActive = 1, 4
	linkDisabled         = 3
)

// AckDelay returns the exponent of the time that the device takes for an acknowledgement.
func (d *Device) AckDelay() uint8 { return d.Limits.Device.LocalCaAckDelay }

// Port returns the attributes of port 1.
func (d *Device) Port() abi.IbUverbsQueryPortResp {
	p := d.Limits.Port
	if d.Subnet != nil {
		p, _ = d.Subnet(p)
	}
	if d.down.Load() {
		p.State, p.PhysState = portDown, linkDisabled
	}
	return p
}

// Remove unplugs the device. All openings get an event. From then on all calls return EIO, except those
// that destroy an object. Mappings of user space remain, but the device no longer reads them. If the driver
// does not let go, nothing changes for the openings.
//
// C: ib_uverbs_remove_one
func (d *Device) Remove() {
	if d.removed.Store(true); !d.LetsGo() {
		return
	}
	for _, k := range d.Openings() {
		k.dissociate()
	}
}

// LetsGo reports whether programs lose a device that is removed.
func (d *Device) LetsGo() bool { return d.driver.LetsGo }

// IsGone reports whether the removal of the device is over. If the driver does not let go, that takes
// until all have closed the device.
func (d *Device) IsGone() bool {
	inUse := func(k *Kernel) bool { return !k.Closed() }
	return d.removed.Load() && (d.LetsGo() || !slices.ContainsFunc(d.Openings(), inUse))
}

// Kill frees the objects of the programs that have opened the device, as the kernel does when it kills
// them. Their goroutines in this process find that the device is gone. Other programs can open it.
func (d *Device) Kill() {
	for _, k := range d.Openings() {
		k.mu.Lock()
		k.killed = true
		k.unlock()
		k.dissociate()
	}
}

// isGone reports whether the program has lost the device.
func (k *Kernel) isGone() bool { return k.killed || k.Device.removed.Load() && k.Device.LetsGo() }

// dissociate frees the device's resources of all objects, as the core does when the driver is removed.
// The handles remain until the program destroys the objects.
func (k *Kernel) dissociate() {
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return
	}
	k.Raise(0, abi.IB_EVENT_DEVICE_FATAL)
	for _, o := range k.objects {
		o.free()
		o.free = func() {}
	}
	for _, c := range k.files {
		c.hangUp(syscall.EIO)
	}
}

func (k *Kernel) getContext(r *ioctl.Request) error {
	if k.context {
		return syscall.EINVAL
	}
	if err := k.insist("GET_CONTEXT", r); err != nil {
		return err
	}
	if err := k.Model.Context(r); err != nil {
		return err
	}
	n := uint32(CompVectors)
	ioctl.Answer(r, abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &n)
	k.context = true
	return nil
}

func (k *Kernel) queryPort(r *ioctl.Request) error {
	if port, _ := r.Value(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM); port != 1 || !k.context {
		return syscall.EINVAL
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, abi.IbUverbsQueryPortRespEx{LegacyResp: k.Device.Port()})
}

func (k *Kernel) queryGIDTable(r *ioctl.Request) error {
	const id = abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES
	room, _ := r.Bytes(id)
	size, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE)
	gids := k.Device.table()
	if flags, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS); flags != 0 || !k.context {
		return syscall.EINVAL
	}
	if size != gidEntrySize || len(room) < gidEntrySize*len(gids) {
		return syscall.EINVAL
	}
	for i := range gids {
		room = room[copy(room, abi.Bytes(&gids[i])):]
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, uint64(len(gids)))
}

func (k *Kernel) queryGIDEntry(r *ioctl.Request) error {
	port, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT)
	index, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)
	if flags, _ := r.Value(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS); port != 1 || flags != 0 || !k.context {
		return syscall.EINVAL
	}
	e, err := k.GID(uint32(index))
	if err != nil {
		return err
	}
	return Answer(r, abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, *e)
}

// GID returns an entry of the GID table, as rdma_get_gid_attr does.
func (k *Kernel) GID(index uint32) (*abi.IbUverbsGidEntry, error) {
	if index >= k.Device.Limits.Port.GidTblLen {
		return nil, syscall.EINVAL
	}
	gids := k.Device.table()
	for i := range gids {
		if gids[i].GidIndex == index {
			return &gids[i], nil
		}
	}
	return nil, syscall.ENODATA
}

func (k *Kernel) queryDevice(r *ioctl.Request) error {
	l := k.limits()
	if in, ok := r.Bytes(abi.UVERBS_ATTR_UHW_IN); ok && len(in) > 0 {
		return syscall.EINVAL
	}
	if m, ok := k.Model.(attrModel); ok {
		if err := m.QueryDevice(r); err != nil {
			return err
		}
	}
	return respond(r, abi.IbUverbsExQueryDeviceResp{Base: l.Device, ResponseLength: 304, DeviceCapFlagsEx: l.Caps,
		MaxDmSize: l.MaxDM, TimestampMask: l.ClockMask, HcaCoreClock: l.ClockKHz, RawPacketCaps: l.RawCaps, CqModerationCaps: l.Moderation,
		RssCaps: l.RSS, OdpCaps: l.ODP, XrcOdpCaps: l.ODPXRC})
}

// attrModel is a driver that adds private bytes to the device's attributes.
type attrModel interface{ QueryDevice(*ioctl.Request) error }

// queryDeviceLegacy handles the command with which libibverbs first finds out whether the kernel accepts
// commands through ioctl.
func (k *Kernel) queryDeviceLegacy(r *ioctl.Request) error {
	return respond(r, k.limits().Device)
}

// limiter is a model whose options change the device's attributes.
type limiter interface{ AdjustLimits(*Limits) }

func (k *Kernel) limits() Limits {
	l := k.Device.Limits
	l.Device.NodeGuid, l.Device.SysImageGuid = k.Device.NodeGUID, k.Device.NodeGUID
	if m, ok := k.Model.(limiter); ok {
		m.AdjustLimits(&l)
	}
	return l
}

// violations holds descriptions of errors of user space in its use of the device. All openings of a
// device share them. A real kernel doesn't report these errors, because they are between user space and
// the device.
type violations struct {
	mu    sync.Mutex
	words []string
}

// most is the maximum number of violations, which bounds their memory.
const most = 1000

func (v *violations) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.words) < most {
		v.words = append(v.words, fmt.Sprintf(format, args...))
	}
}

// Violations returns the errors of user space with the device's queues and registers so far, oldest
// first.
func (d *Device) Violations() []string {
	d.violations.mu.Lock()
	defer d.violations.mu.Unlock()
	return append([]string(nil), d.violations.words...)
}

// Violations returns the violations of the device.
func (k *Kernel) Violations() []string { return k.Device.Violations() }

// onDemand reports whether the device has on-demand paging.
func (k *Kernel) onDemand() bool { return k.OnDemand || k.limits().ODP.GeneralCaps != 0 }

// Dup counts another descriptor of the file, which another process has received. The file must then be
// closed once more.
func (k *Kernel) Dup() *Kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.others++
	return k
}

// ContextAttrs holds the attributes of QUERY_CONTEXT that all drivers have.
var ContextAttrs = []MethodAttr{
	Out(abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4).Optional(),
	Out(abi.UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8).Optional(),
}

type contextQuerier interface{ QueryContext(*ioctl.Request) }

// QueryContext returns to another process the answer that the first one got.
func (k *Kernel) QueryContext(r *ioctl.Request) error {
	m, ok := k.Model.(contextQuerier)
	switch {
	case !k.context:
		return syscall.EINVAL
	case !ok:
		return syscall.EOPNOTSUPP
	}
	n := uint32(CompVectors)
	ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &n)
	m.QueryContext(r)
	return nil
}
