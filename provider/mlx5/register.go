package mlx5

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
)

// register is a QP's doorbell register. Whole requests are copied to its two halves in
// turn.
type register struct {
	page   *mmap.Page
	at     int // offset in the page
	half   int // bytes of a half; 0: it takes no copies
	offset int // of the next half; lock guards it, or the send queue's lock
	lock   driver.Lock
	shared bool // QPs share it, so the lock must be held
	users  int
	uar    uint32 // number of the UAR's page
}

// ring rings the doorbell of q's send queue, whose record must be up to date. It passes all of a
// short request that was posted alone, else the start of the last one, which has segs segments. If
// the register has no halves, offset is not written: QPs may share such a register without a lock.
func (r *register) ring(q *qp, alone bool, segs uint32) {
	if r.shared {
		r.lock.Lock()
	}
	s, blocks, to := &q.sq, blocksOf(segs), r.at+r.offset
	last := s.pi - blocks
	if alone && segs > 1 && int(segs)*segmentSize <= r.half {
		start := int(last&(s.blocks-1)) * blockSize
		if end := start + int(blocks)*blockSize; end <= len(s.memory) {
			r.page.CopyWC(to, s.memory[start:end])
		} else {
			r.page.CopyWC(to, q.wrapped(start, end))
		}
	} else {
		r.page.StoreWC64(to, s.ring.At(last)[0][0])
	}
	if r.half > 0 {
		r.offset ^= r.half
	}
	if r.shared {
		r.lock.Unlock()
	}
}

// registers holds the UARs of a context. Kernels with dynamic UARs create them on request:
// one without write combining for all CQs, then two for the first QPs, which get a register
// each, then some whose registers are shared. Other kernels offer a number of registers at
// the start, and choose one for each QP.
type registers struct {
	mu      sync.Mutex
	dynamic bool
	cq      *mmap.Page
	cqUAR   uint32
	pages   []uar
	send    []*register // dynamic: in order of creation; else by the kernel's index, nil for those not in use

	dedicated int // how many of send are not shared, with dynamic UARs
}

// uar is a UAR object of the kernel.
type uar struct {
	page   *mmap.Page
	handle uint32
	number uint32
}

// The numbers of registers that are enough, as in rdma-core. The registers of the first QPs are
// not shared. All UARs of a page are used, so there may be more.
const (
	dedicatedRegisters = 4
	sharedRegisters    = 12
)

func (s *registers) init(c *mlx5Context) (err error) {
	s.dynamic = c.limits.TotBfregs == 0
	if !s.dynamic {
		return s.mapStatic(c)
	}
	u, err := s.make(c, abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
	s.cq, s.cqUAR = u.page, u.number
	return err
}

// make creates a UAR and maps it.
func (s *registers) make(c *mlx5Context, kind uint64) (u uar, err error) {
	var offset uint64
	var length, number uint32
	attrs := []driver.Attr{
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, New: true},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, In: abi.Bytes(&kind)},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, Out: abi.Bytes(&offset)},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, Out: abi.Bytes(&length)},
		{ID: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, Out: abi.Bytes(&number)},
	}
	if err := c.device.Invoke(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC, attrs...); err != nil {
		return uar{}, fmt.Errorf("allocate a UAR: %w", err)
	}
	u = uar{handle: attrs[0].Handle, number: number}
	if u.page, err = c.device.MapPage(int64(offset), int(length)); err == nil && uint32(u.page.Len()/uarSize) < max(c.limits.NumUarsPerPage, 1) {
		err = fmt.Errorf("the kernel returned invalid mapping of %d UARs in %d bytes", c.limits.NumUarsPerPage, length)
	}
	if err != nil {
		return uar{}, errors.Join(err, u.free(c))
	}
	s.pages = append(s.pages, u)
	return u, nil
}

// free destroys the UAR. Nothing may be stored to its page any more.
func (u *uar) free(c *mlx5Context) (err error) {
	if u.page != nil {
		err = c.device.Free(u.page)
	}
	return errors.Join(err, c.device.Invoke(abi.MLX5_IB_OBJECT_UAR, abi.MLX5_IB_METHOD_UAR_OBJ_DESTROY,
		driver.Attr{ID: abi.MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE, Handle: u.handle}))
}

// mapStatic maps the UARs that the kernel chose.
func (s *registers) mapStatic(c *mlx5Context) error {
	l := &c.limits
	perPage, size := max(l.NumUarsPerPage, 1), c.device.PageSize()
	if l.TotBfregs%(uarRegisters*perPage) != 0 || l.TotBfregs > maxStatic || perPage > uint32(size/uarSize) {
		return fmt.Errorf("the kernel returned invalid mapping of %d registers in pages of %d UARs", l.TotBfregs, perPage)
	}
	for i := range l.TotBfregs / (uarRegisters * perPage) {
		page, err := c.device.MapPage(int64(i)*int64(size), size)
		if err != nil {
			return err
		}
		for u := range perPage {
			for k := range uint32(2 * uarRegisters) {
				s.send = append(s.send, s.static(c, page, u, k))
			}
		}
		if s.cq == nil {
			s.cq = page
		}
	}
	return nil
}

// maxStatic is the largest number of registers that a kernel has: the index of a page has 8 bits.
const maxStatic = 512

// static returns register k of a UAR. The kernel numbers four per UAR and uses two. The
// very first is shared by all QPs, and takes no copies; its stores need no lock, because
// each is a single store.
func (s *registers) static(c *mlx5Context, page *mmap.Page, u, k uint32) *register {
	if k >= uarRegisters {
		return nil
	}
	r := newRegister(c, page, int(u*uarSize), k)
	if len(s.send) == 0 {
		r.shared, r.half = false, 0
	}
	return r
}

// newRegister returns a shared register: k of the UAR at an offset of a page.
func newRegister(c *mlx5Context, page *mmap.Page, uar int, k uint32) *register {
	if c.limits.BfRegSize == 0 {
		return &register{page: page, at: uar + uarSend + int(k)*uarPlainStride, shared: true}
	}
	return &register{page: page, at: uar + uarSend + int(k*c.limits.BfRegSize), half: int(c.limits.BfRegSize / 2), shared: true}
}

// take returns a register for a QP, with dynamic UARs only.
func (s *registers) take(c *mlx5Context) (*register, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	best := s.leastUsed()
	dedicated := s.dedicated < dedicatedRegisters
	if (dedicated || len(s.send)-s.dedicated < sharedRegisters) && (best == nil || best.users > 0) {
		if err := s.grow(c, dedicated); err != nil && best == nil {
			return nil, err
		}
		best = s.leastUsed()
	}
	best.users++
	return best, nil
}

func (s *registers) leastUsed() (best *register) {
	for _, r := range s.send {
		if (r.shared || r.users == 0) && (best == nil || r.users < best.users) {
			best = r
		}
	}
	return best
}

// grow creates another page of UARs. Processors that can't combine writes get one without copies.
func (s *registers) grow(c *mlx5Context, dedicated bool) error {
	kind := uint64(abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF)
	if c.limits.BfRegSize == 0 {
		kind = abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC
	}
	u, err := s.make(c, kind)
	if c.limits.BfRegSize > 0 && errors.Is(err, syscall.EOPNOTSUPP) {
		c.limits.BfRegSize = 0
		u, err = s.make(c, abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
	}
	if err != nil {
		return err
	}
	for i := range max(c.limits.NumUarsPerPage, 1) {
		for k := range uint32(uarRegisters) {
			r := newRegister(c, u.page, int(i*uarSize), k)
			r.uar, r.shared = u.number+i, !dedicated
			s.send = append(s.send, r)
		}
	}
	if dedicated {
		s.dedicated = len(s.send)
	}
	return nil
}

// give ends a QP's use of a register.
func (s *registers) give(r *register) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.users--
}

// close destroys the UARs.
func (s *registers) close(c *mlx5Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.pages {
		err = errors.Join(err, u.free(c))
	}
	s.pages = nil
	return err
}
