package fakeverbs

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Device is what all openings of one device share.
type Device struct {
	// NodeGUID is in network order.
	NodeGUID uint64

	driver     uint32
	limits     limits
	violations violations

	mu       sync.Mutex
	qpns     numbers            // counted from the first that the driver gives
	qps      map[uint32]*QP     // by number
	domains  map[uint64]*domain // of XRC, by the file that each is shared by
	srqs     uint32             // how many SRQs of XRC were made
	openings []*Kernel
	gids     []abi.IbUverbsGidEntry // of port 1
	down     atomic.Bool
	removed  atomic.Bool
	erdma    erdmaDevice
	// How many of these were made: their numbers are never used twice.
	mlx5CQs, mlx5SRQs uint32
	mlx5DMs           mlx5Pages
}

// NewDevice makes a device that driver runs.
func NewDevice(driver uint32) *Device {
	d := &Device{driver: driver, qps: make(map[uint32]*QP), domains: make(map[uint64]*domain)}
	switch driver {
	case abi.RDMA_DRIVER_SIW:
		d.limits = siw{}.limits()
	case abi.RDMA_DRIVER_RXE:
		d.limits = (*rxe)(nil).limits()
	case abi.RDMA_DRIVER_ERDMA:
		d.limits = (*erdma)(nil).limits()
	case abi.RDMA_DRIVER_MLX5:
		d.limits = (*mlx5)(nil).limits()
	default:
		d.limits = bare{}.limits()
		d.limits.maxDM, d.limits.moderation = 64<<10, abi.IbUverbsCqModerationCaps{MaxCqModerationCount: 1000, MaxCqModerationPeriod: 4000}
	}
	d.gids, d.NodeGUID = d.limits.gids, d.limits.device.NodeGuid
	return d
}

// Open returns the kernel side of a fresh file of the device.
func (d *Device) Open() *Kernel {
	d.forget()
	k := &Kernel{
		Inode: inode, device: d, driver: d.driver, model: bare{}, objects: make(map[uint32]*object),
		files: make(map[int32]*channel), memory: make(map[int64]offer), calls: make(map[string]int),
		keys: make(map[uint32]*MR), windows: make(map[uint32]*MW),
	}
	k.User = &k.lent
	switch d.driver {
	case abi.RDMA_DRIVER_SIW:
		k.model = siw{}
	case abi.RDMA_DRIVER_RXE:
		k.model = &rxe{k: k}
	case abi.RDMA_DRIVER_ERDMA:
		k.model = &erdma{k: k}
	case abi.RDMA_DRIVER_MLX5:
		k.model = &mlx5{k: k}
		k.MLX5.Infiniband = d.isInfiniBand()
		k.Own = map[uint16]bool{abi.MLX5_IB_ATTR_CREATE_CQ_UAR_INDEX: true}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.openings = append(d.openings, k)
	return k
}

// forget drops the openings that are closed and have left nothing, so that a program may
// open the device any number of times.
func (d *Device) forget() {
	for _, k := range d.Openings() {
		if len(k.Leaks()) > 0 {
			continue
		}
		d.mu.Lock()
		d.openings = slices.DeleteFunc(d.openings, func(other *Kernel) bool { return other == k })
		d.mu.Unlock()
	}
}

// Openings are all that are open or have left something, oldest first.
func (d *Device) Openings() []*Kernel {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.openings)
}

// QP finds the queue pair of a number, in all openings.
func (d *Device) QP(num uint32) *QP {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.qps[num]
}

// add gives a queue pair the lowest number that is free.
func (d *Device) add(qp *QP) {
	d.mu.Lock()
	defer d.mu.Unlock()
	qp.Num = d.firstQPN() + d.qpns.take(func(i uint32) bool { return d.qps[d.firstQPN()+i] != nil })
	d.qps[qp.Num] = qp
}

func (d *Device) firstQPN() uint32 {
	if d.driver == abi.RDMA_DRIVER_RXE {
		return firstRXEQPN
	}
	return 1
}

func (d *Device) remove(qp *QP) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.qps, qp.Num)
	d.qpns.free(qp.Num - d.firstQPN())
}

// SetInfiniBand has the device be on InfiniBand, where port 1 has a LID. It comes before
// SetGIDs, and before the device is opened.
func (d *Device) SetInfiniBand(lid uint16) {
	p := &d.limits.port
	p.LinkLayer, p.Lid, p.Flags = linkInfiniBand, lid, 0
}

// linkInfiniBand is a link layer, as IBV_LINK_LAYER_INFINIBAND.
const linkInfiniBand = 1

func (d *Device) isInfiniBand() bool { return d.limits.port.LinkLayer == linkInfiniBand }

// SetGIDs replaces the GID table, which begins with the GID of index 0.
func (d *Device) SetGIDs(gids ...[16]byte) {
	typ := uint32(0)
	if !d.isInfiniBand() && (d.driver == abi.RDMA_DRIVER_RXE || d.driver == abi.RDMA_DRIVER_MLX5) {
		typ = abi.IB_UVERBS_GID_TYPE_ROCE_V2
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gids = nil
	for i, gid := range gids {
		d.gids = append(d.gids, gidEntry(gid, uint32(i), typ))
	}
}

// GIDs is the GID table.
func (d *Device) GIDs() (gids [][16]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.gids {
		gids = append(gids, gidOf(&d.gids[i]))
	}
	return gids
}

func (d *Device) table() []abi.IbUverbsGidEntry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gids
}

func gidOf(e *abi.IbUverbsGidEntry) (gid [16]byte) {
	binary.NativeEndian.PutUint64(gid[:], e.Gid[0])
	binary.NativeEndian.PutUint64(gid[8:], e.Gid[1])
	return gid
}

// SetLink takes port 1 down or up, and tells everybody.
func (d *Device) SetLink(up bool) {
	changed := d.down.Swap(!up) == up
	event := uint32(abi.IB_EVENT_PORT_ERR)
	if up {
		event = abi.IB_EVENT_PORT_ACTIVE
	}
	for _, k := range d.Openings() {
		if changed {
			k.Async(1, event)
		}
	}
}

// Up tells whether port 1 is up.
func (d *Device) Up() bool { return !d.down.Load() }

// AckDelay is the time that the device takes for an acknowledgement, as a power of two.
func (d *Device) AckDelay() uint8 { return d.limits.device.LocalCaAckDelay }

// port is what the device says of port 1.
func (d *Device) port() abi.IbUverbsQueryPortResp {
	p := d.limits.port
	if !d.Up() {
		p.State, p.PhysState = 1, 3 // down, disabled
	}
	return p
}

// Remove unplugs the device: all openings are told, and from then on all their calls are
// EIO, but those that destroy an object. Mappings of user space stay, and nothing looks at them.
func (d *Device) Remove() {
	d.removed.Store(true)
	for _, k := range d.Openings() {
		k.dissociate()
	}
}

func (d *Device) isRemoved() bool { return d.removed.Load() }

// Kill frees what the programs have that have the device open, as the kernel does when they are
// killed. To what is left of them in this process the device is gone. Others may open it.
func (d *Device) Kill() {
	for _, k := range d.Openings() {
		k.mu.Lock()
		k.killed = true
		k.unlock()
		k.dissociate()
	}
}

// isGone reports whether the program has the device no more.
func (k *Kernel) isGone() bool { return k.killed || k.device.isRemoved() }

// dissociate frees what all objects have of the device, as the core does when their driver
// goes. Their handles stay until the program destroys the objects.
func (k *Kernel) dissociate() {
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return
	}
	k.raise(0, abi.IB_EVENT_DEVICE_FATAL)
	for _, o := range k.objects {
		o.free()
		o.free = func() {}
	}
	for _, c := range k.files {
		c.hangUp(syscall.EIO)
	}
}
