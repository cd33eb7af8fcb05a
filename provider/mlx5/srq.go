package mlx5

import (
	"fmt"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// srq is a shared receive queue: a list of free entries, which the device and this process
// both follow. The device continues from the entry that it used last. Completed entries, in
// any order, are appended to the last free entry, which always stays unused.
type srq struct {
	ctx     *mlx5Context
	num     uint32
	lock    *driver.Lock // guards the fields below; the caller of PostRecv holds it
	segs    mmap.Array[segment]
	size    uint32 // segments of an entry
	maxSGE  int
	record  record
	posted  uint16
	head    uint16 // the next to fill
	tail    uint16 // the last free one
	entries []sharedReceive
	target  *qp // the QP for completions of an XRC SRQ, else nil
}

type sharedReceive struct {
	id      uint64
	next    uint16 // copy of the entry's, which the device could change
	pending bool
}

// CreateSRQ implements driver.SRQCreator.
func (c *mlx5Context) CreateSRQ(r *driver.CreateSRQ) (driver.SRQ, error) {
	s := &srq{ctx: c, lock: r.Lock}
	if err := s.init(r); err != nil {
		return nil, err
	}
	return s, nil
}

// init computes the size of entries as the kernel does, and creates the SRQ.
func (s *srq) init(r *driver.CreateSRQ) (err error) {
	c := s.ctx
	most := uint32(c.limits.MaxRqDescSz)
	if r.MaxSGE > most/segmentSize-1 {
		return tooLarge("receives", most)
	}
	if r.MaxWR > c.limits.MaxSrqRecvWr {
		return fmt.Errorf("%w: an SRQ of %d receives, but the device's have at most %d", verbs.ErrNotSupported, r.MaxWR, c.limits.MaxSrqRecvWr)
	}
	s.size = max(pow2(1+r.MaxSGE), 2)
	n := pow2(r.MaxWR + 1)
	s.maxSGE, r.MaxSGE, r.MaxWR = int(s.size-1), s.size-1, n-1
	buf, err := r.Alloc(int(n*s.size)*segmentSize, nil)
	if err != nil {
		return err
	}
	if s.segs, err = mmap.NewArray[segment](buf, 0, n*s.size); err != nil {
		return err
	}
	s.entries = make([]sharedReceive, n)
	for i := range n {
		s.link(uint16(i), uint16((i+1)&(n-1)))
	}
	s.tail = uint16(n - 1)
	if s.record, err = c.records.take(); err != nil {
		return err
	}
	if err = s.create(r, buf.Addr()); err != nil {
		c.records.give(s.record)
	}
	return err
}

func (s *srq) create(r *driver.CreateSRQ, addr uint64) error {
	req := abi.Mlx5IbCreateSrq{BufAddr: addr, DbAddr: s.record.addr}
	if s.target != nil {
		req.Uidx = s.target.index
	}
	var resp abi.Mlx5IbCreateSrqResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		return err
	}
	r.MaxSGE, r.MaxWR = s.size-1, uint32(len(s.entries)-1)
	if s.num = resp.Srqn; s.ctx.indexed {
		return nil
	}
	return s.ctx.srqs.Set(s.num, s)
}

// link makes next follow entry.
func (s *srq) link(entry, next uint16) {
	s.entries[entry].next = next
	s.segs.At(uint32(entry) * s.size)[0] = uint64(be16(next)) << 16
}

// PostRecv implements driver.SRQ.
func (s *srq) PostRecv(wrs []verbs.RecvWR) (n int, err error) {
	// Receives with one SGE are the most frequent.
	for ; n < len(wrs); n++ {
		wr := &wrs[n]
		sgl := wr.SGL
		if len(sgl) != 1 || s.head == s.tail {
			break
		}
		g := &sgl[0]
		length, key, addr := g.Length, g.LKey, g.Addr
		if length-1 >= maxDataLength { // also 0, which is no SGE
			break
		}
		at := uint32(s.head)*s.size + 1
		*s.segs.At(at) = segment{words(length, key), be64(addr)}
		if s.size > 2 {
			*s.segs.At(at + 1) = segment{words(0, invalidLKey)}
		}
		e := &s.entries[s.head]
		e.id, e.pending = wr.WRID, true
		s.head = e.next
		s.posted++
	}
	for n < len(wrs) {
		if err = s.post(&wrs[n]); err != nil {
			break
		}
		n++
	}
	if n > 0 {
		s.record.set(0, uint32(s.posted))
	}
	return n, err
}

func (s *srq) post(wr *verbs.RecvWR) error {
	sgl := wr.SGL // read once: the slice that is checked is used
	if err := checkReceive(sgl, s.maxSGE); err != nil {
		return err
	}
	if s.head == s.tail {
		return verbs.ErrQueueFull
	}
	putReceive(&s.segs, uint32(s.head)*s.size+1, s.size-1, sgl)
	e := &s.entries[s.head]
	e.id, e.pending = wr.WRID, true
	s.head = e.next
	s.posted++
	return nil
}

// complete frees an entry, unless it has no receive. It copies the message if the device
// left it in the completion. The caller holds the CQ.
func (s *srq) complete(index uint16, data []byte, wc *verbs.WC) bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	if int(index) >= len(s.entries) || !s.entries[index].pending {
		return false
	}
	e := &s.entries[index]
	if len(data) > 0 {
		wc.Status = s.ctx.scatter(&s.segs, uint32(index)*s.size+1, s.size-1, data)
	}
	wc.WRID, e.pending = e.id, false
	s.link(s.tail, index)
	s.tail = index
	return true
}

// repost posts a receive anew that the device gave back because of a page fault. It uses another
// entry: the device may still read the old one, which becomes the last free one.
func (s *srq) repost(index uint16) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if int(index) >= len(s.entries) || !s.entries[index].pending {
		return
	}
	old := &s.entries[index]
	old.pending = false
	s.link(s.tail, index)
	s.tail = index
	e := &s.entries[s.head]
	for i := uint32(1); i < s.size; i++ {
		*s.segs.At(uint32(s.head)*s.size + i) = *s.segs.At(uint32(index)*s.size + i)
	}
	e.id, e.pending = old.id, true
	s.head = e.next
	s.posted++
	s.record.set(0, uint32(s.posted))
}

// Destroy implements driver.Destroyer.
func (s *srq) Destroy(do func() error) error {
	err := do()
	if err == nil {
		s.ctx.srqs.Delete(s.num, s)
		if s.target != nil {
			s.ctx.qps.Delete(s.target.index, s.target)
		}
		s.ctx.records.give(s.record)
	}
	return err
}

// CreateXRCSRQ creates an SRQ that peers address by its number. Its completions hold an
// index of the SRQ in place of a QP's.
func (c *mlx5Context) CreateXRCSRQ(r *driver.CreateXRCSRQ) (driver.SRQ, error) {
	s := &srq{ctx: c, lock: r.Lock}
	s.target = &qp{ctx: c, typ: verbs.QPTypeXRCTarget, recvCQ: r.CQ.(*cq), srq: s, index: noIndex}
	if c.indexed {
		var err error
		if s.target.index, err = c.qps.Put(s.target); err != nil {
			return nil, err
		}
	}
	if err := s.init(&r.CreateSRQ); err != nil {
		c.qps.Delete(s.target.index, s.target)
		return nil, err
	}
	return s, nil
}

// CreateXRCTarget creates the QP without an index, because its completions name SRQs.
func (c *mlx5Context) CreateXRCTarget(r *driver.CreateXRCTarget) (driver.QP, error) {
	var req abi.Mlx5IbCreateQp
	if !c.indexed {
		req.Uidx = noIndex
	}
	if c.hasECE() {
		req.EceOptions = askECE
	}
	var resp abi.Mlx5IbCreateQpResp
	if err := r.Do(driver.UHW{In: abi.Bytes(&req), Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	return &xrcTarget{ece: ece{offered: c.hasECE(), options: resp.EceOptions}}, nil
}

// xrcTarget is a target QP. The device fills the receives of SRQs, so only the kernel knows it, and
// its options.
type xrcTarget struct {
	driver.NoQueues
	ece
}

// Modify implements driver.QPModifier.
func (t *xrcTarget) Modify(r *driver.ModifyQP) error { return t.modify(r) }
