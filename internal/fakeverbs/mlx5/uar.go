package mlx5

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// uar is a system page of registers.
type uar struct {
	m      *model
	key    int64
	number uint32 // number of the page
	wc     bool   // whether copies may be made to it
	regs   map[int]*register
	part   [64]byte // the last part of a copy
}

// register is a doorbell register of sends.
type register struct {
	half   int // offset of the next half for copies
	copied mlx5Copy
	last   struct { // the last request that was announced with a word, and its place
		at   int
		send *send
	}
}

// at returns the register at an offset, or nil, and the start of the register.
func (u *uar) at(offset int) (start int, r *register) {
	if r := u.regs[offset]; r != nil {
		return offset, r
	}
	start = offset &^ (bfSize - 1)
	return start, u.regs[start]
}

// mlx5Copy is a request that is being copied in blocks of 64 bytes.
type mlx5Copy struct {
	offset int
	b      []byte
	done   bool
}

// Offsets of registers in a UAR.
const (
	uarSize    = 4096
	uarcq      = 0x20
	uarSend    = 0x800
	plainReg   = 0x100
	uarCommand = 9 // commands from 9 on are keys of objects
	uarPerPage = 2 // used registers per UAR
)

// methods returns the methods of the driver's own objects.
func methods() map[[2]uint16]*fakeverbs.Method {
	return map[[2]uint16]*fakeverbs.Method{
		{abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC}: fakeverbs.NewMethod("UAR_OBJ_ALLOC", allocUAR, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE),
			fakeverbs.Enum(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE),
			fakeverbs.Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, 8),
			fakeverbs.Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, 4),
			fakeverbs.Out(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, 4),
		}),
		{abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_DESTROY}: fakeverbs.NewMethod("UAR_OBJ_DESTROY", destroyUAR, fakeverbs.Destroys(abi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE)),
		{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_CONTEXT}: fakeverbs.NewMethod("QUERY_CONTEXT", (*fakeverbs.Kernel).QueryContext,
			append(slices.Clone(fakeverbs.ContextAttrs), fakeverbs.OutMin(abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, contextLen))),
		{abi.UVERBS_OBJECT_PD, abi.MLX5_IB_METHOD_PD_QUERY}: fakeverbs.NewMethod("PD_QUERY", queryPD, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.MLX5_IB_ATTR_QUERY_PD_HANDLE),
			fakeverbs.Out(abi.MLX5_IB_ATTR_QUERY_PD_RESP_PDN, 4),
		}),
		{abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_ALLOC}: fakeverbs.NewMethod("DM_ALLOC", (*fakeverbs.Kernel).AllocDM, append(slices.Clone(fakeverbs.AllocDMAttrs),
			fakeverbs.Out(abi.MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, 8),
			fakeverbs.Out(abi.MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, 2).Optional(),
			fakeverbs.Enum(abi.MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE).Optional(),
		)),
		{abi.UVERBS_OBJECT_DM, abi.MLX5_IB_METHOD_DM_QUERY}: fakeverbs.NewMethod("DM_QUERY", queryDM, []fakeverbs.MethodAttr{
			fakeverbs.Obj(abi.MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE),
			fakeverbs.Out(abi.MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, 8),
			fakeverbs.Out(abi.MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, 2),
			fakeverbs.Out(abi.MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, 8),
		}),
	}
}

func (m *model) addUAR(key int64, number uint32, wc bool) *uar {
	u := &uar{m: m, key: key, number: number, wc: wc, regs: make(map[int]*register)}
	size := bfSize
	if !wc || m.options.NoBlueFlame {
		size = plainReg
	}
	for uar := range m.perPage {
		for i := range uarPerPage {
			u.regs[uar*uarSize+uarSend+i*size] = &register{}
		}
	}
	m.uars[key] = u
	return u
}

// addStatic creates the UARs of a context without dynamic ones. They are whole pages with at least n
// registers. The keys of the pages are their indexes, which have 8 bits.
func (m *model) addStatic(n uint32) uint32 {
	perPage := uint32(uarPerPage * m.perPage)
	pages := (n + perPage - 1) / perPage
	for i := range pages {
		m.addUAR(m.mmapKey(0, int(i)), i*uint32(m.perPage), true)
	}
	m.static = pages * perPage
	return m.static
}

// mmapKey returns the key at which a page is mapped. It consists of a command and an index. The bits of the
// index above the lowest 8 have a separate place, and are zero for static pages.
func (m *model) mmapKey(command, index int) int64 {
	return int64(index&0xff|command<<8|index>>8<<16) * int64(m.k.PageSize())
}

func allocUAR(k *fakeverbs.Kernel, r *ioctl.Request) error {
	m := k.Model.(*model)
	kind, _ := r.Value(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE)
	wc := kind == abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
	switch {
	case kind > abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC:
		return syscall.EINVAL
	case wc && m.options.NoWC:
		return syscall.EOPNOTSUPP
	case wc && m.options.NoBlueFlame:
		m.note("UAR_OBJ_ALLOC: a UAR for copies, of a device that has no registers for them")
	}
	if m.lastUAR == 0 {
		m.lastUAR = max(m.options.FirstUAR, 3)
	}
	m.lastUAR += uint32(m.perPage)
	key := m.mmapKey(uarCommand, int(m.lastUAR)&0xffff)
	u := m.addUAR(key, m.lastUAR, wc)
	h := k.Add("UAR", u, func() { delete(m.uars, key) })
	r.SetObject(abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, h)
	offset, length := uint64(key), uint32(m.k.PageSize())
	ioctl.Answer(r, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset)
	ioctl.Answer(r, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length)
	ioctl.Answer(r, abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &m.lastUAR)
	return nil
}

func destroyUAR(k *fakeverbs.Kernel, r *ioctl.Request) error {
	h, _ := r.Value(abi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE)
	return k.Remove("UAR", uint32(h))
}

// MapRegisters maps a whole UAR that has been offered.
func (m *model) MapRegisters(_ *fakeverbs.Kernel, key int64, length int) error {
	if m.uars[key] == nil || length != m.k.PageSize() {
		return syscall.EINVAL
	}
	return nil
}

// Watch checks the kind of a store before it is executed. A store to a UAR goes through memory that may
// combine writes, so it needs barriers.
func (m *model) Watch(key int64, s mmap.Store) {
	u := m.uars[key]
	switch {
	case u == nil:
		m.note("a store to a page of registers that is gone, at %#x", key)
	case s.Kind == mmap.StorePlain:
		m.note("a store at %#x of UAR %d, without the barriers of memory that combines writes", s.Offset, u.number)
	case s.Kind == mmap.FlushWC || s.Kind == mmap.StartWC:
		if _, r := u.at(s.Offset); r != nil {
			r.copied.restart(u, s.Kind == mmap.FlushWC)
		}
	}
}

// restart prepares for another copy. The end of a copy must follow all of its blocks.
func (c *mlx5Copy) restart(u *uar, end bool) {
	if end && !c.done && len(c.b) > 0 {
		u.m.note("UAR %d: a copy of %d bytes ends too early", u.number, len(c.b))
	}
	*c = mlx5Copy{b: c.b[:0]}
}

// Store handles a store of a word, to the doorbell of CQs or of the start of a request.
func (m *model) Store(_ *fakeverbs.Kernel, key int64, offset, size int, v uint64) {
	u := m.uars[key]
	if u == nil {
		return
	}
	if m.options.Late {
		u.look(offset%uarSize == uarcq)
		return
	}
	c := m.k.ShowCrossing(fakeverbs.Crossing{Kind: fakeverbs.Doorbell, Page: int(u.number), Offset: offset, Size: size, Value: v})
	if c.Drop {
		return
	}
	offset, size, v = c.Offset, c.Size, bits.ReverseBytes64(c.Value)
	switch {
	case size != 8:
		m.note("a store of %d bytes at %#x of UAR %d, whose registers take 8", size, offset, u.number)
	case offset%uarSize == uarcq:
		u.arm(v)
	default:
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], v)
		if within := offset % (bfSize / 2); within > 0 {
			u.goOn(offset-within, within, b[:])
			return
		}
		u.send(offset, b[:])
	}
}

// goOn handles a store after the start of a request, in a copy that is made word by word. The first word
// was the doorbell.
func (u *uar) goOn(start, within int, b []byte) {
	_, r := u.at(start)
	if r == nil || r.last.send == nil || r.last.at != start || within+8 > len(r.last.send.raw) || !bytes.Equal(r.last.send.raw[within:][:8], b) {
		u.m.note("UAR %d: %x at %#x goes on with no request", u.number, b, start+within)
	}
}

// Copy64 handles a store of 64 bytes of a request, which contains its length.
func (m *model) Copy64(key int64, offset int, b [64]byte) {
	u := m.uars[key]
	if u == nil {
		return
	}
	u.part = b
	c := m.k.ShowCrossing(fakeverbs.Crossing{Kind: fakeverbs.Doorbell, Page: int(u.number), Offset: offset, Size: len(b), Bytes: u.part[:]})
	if c.Drop {
		return
	}
	if !u.wc || m.options.NoBlueFlame {
		m.note("UAR %d: a copy to a page that takes words only", u.number)
	}
	_, reg := u.at(c.Offset)
	if reg == nil {
		m.note("UAR %d: a copy to %#x, where it has no register", u.number, c.Offset)
		return
	}
	to := &reg.copied
	if to.done || len(to.b) == 0 {
		*to = mlx5Copy{offset: c.Offset, b: to.b[:0]}
	}
	if c.Offset != to.offset+len(to.b) {
		m.note("UAR %d: the next 64 bytes of a copy go to %#x, not %#x", u.number, c.Offset, to.offset+len(to.b))
	}
	to.b = append(to.b, c.Bytes...)
	if segs := int(to.b[7] & 0x3f); len(to.b) >= segs*16 {
		to.done = true
		u.send(to.offset, to.b)
	}
}

// send handles the doorbell of sends, which is the start of a request or the whole request.
func (u *uar) send(offset int, b []byte) {
	m := u.m
	num := binary.BigEndian.Uint32(b[4:]) >> 8
	qp := m.k.Device.QP(num)
	if qp == nil || qp.Kernel() != m.k || QPOf(qp) == nil {
		m.note("a doorbell for QP %d, which is not there: %x at %#x", num, b[:8], offset)
		return
	}
	q := QPOf(qp)
	at, reg := u.at(offset)
	if reg == nil || q.uar != u || q.register >= 0 && q.register != at || q.register < 0 && at&^(uarSize-1) != q.inPage {
		m.note("%v: a doorbell at %#x of UAR %d, which is not the QP's", q, offset, u.number)
		return
	}
	want := at
	if u.wc && !m.options.NoBlueFlame && !(!m.dynamic && u.number == 0 && at == uarSend) {
		want += reg.half
		reg.half ^= bfSize / 2
	} else if len(b) > 8 {
		m.note("%v: a copy to a register that takes words only", q)
	}
	if offset != want {
		m.note("%v: the doorbell is at %#x, and its turn was %#x", q, offset, want)
	}
	reg.last.at, reg.last.send = offset, q.doorbell(b)
	m.k.Ring(qp)
}

// arm handles the doorbell of CQs.
func (u *uar) arm(v uint64) {
	m := u.m
	num := uint32(v)
	q := m.cqs[num]
	if q == nil {
		m.note("a doorbell for CQ %d, which is not there: %#016x", num, v)
		return
	}
	if q.uar != u {
		m.note("%v: it is armed through UAR %d, and belongs to %d", q, u.number, q.uar.number)
	}
	arm := uint32(v >> 32)
	if rec := m.load(q, q.Num, q.record+4); rec != arm {
		m.note("%v: the doorbell says %#x, and its record %#x", q, arm, rec)
	}
	q.arm(arm)
}

// findUAR returns the dynamic UAR with a number, and its offset in the page.
func (m *model) findUAR(number uint32) (u *uar, at int) {
	for _, u := range m.uars {
		if i := number - u.number; i < uint32(m.perPage) {
			return u, int(i) * uarSize
		}
	}
	return nil, 0
}

// sameBytes reports whether a copy of a request is equal to the request in the queue.
func sameBytes(copied, queue []byte) bool {
	return bytes.Equal(copied[:min(len(copied), len(queue))], queue)
}
