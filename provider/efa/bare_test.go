package efa

import (
	"errors"
	"io"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/verbs"
)

// bare is a kernel without a device: it maps memory, and answers each call with prepared bytes. Tests
// of single bytes use it.
type bare struct {
	t      testing.TB
	out    []byte // of the next call
	in     []byte // of the last call
	memory map[int64]*mmap.Region
	stores []mmap.Store
	copies [][64]byte
	err    error
}

func newBare(t testing.TB) *bare { return &bare{t: t, memory: make(map[int64]*mmap.Region)} }

func (b *bare) PageSize() int { return 4096 }

func (b *bare) Map(key int64, length int, _ mmap.Prot) (*mmap.Region, error) {
	if key < 0 {
		return nil, errors.New("no such key")
	}
	r, err := mmap.Anonymous(length, nil)
	if err != nil {
		return nil, err
	}
	b.t.Cleanup(func() { _ = r.Close() })
	b.memory[key] = r
	return r, nil
}

func (b *bare) MapPage(key int64, length int) (*mmap.Page, error) {
	r, err := b.Map(key, length, mmap.ProtWrite)
	if err != nil {
		return nil, err
	}
	return mmap.NewPage(r, func(s mmap.Store) {
		if s.Bytes != nil {
			b.copies = append(b.copies, *s.Bytes)
			s.Bytes = nil
		}
		b.stores = append(b.stores, s)
	})
}

func (b *bare) Alloc(int, *mmap.AnonymousOptions) (*mmap.Region, error) {
	return nil, errors.New("EFA allocates nothing")
}
func (b *bare) Free(io.Closer) error { return nil }

func (b *bare) Do(u driver.UHW, _ ...driver.Attr) error {
	if b.err != nil {
		return b.err
	}
	b.in = append([]byte(nil), u.In...)
	copy(u.Out, b.out)
	return nil
}

// bareAH is an address handle in work requests.
type bareAH struct {
	verbs.AH
	*ah
}

// bareWorld is a QP on a bare kernel.
type bareWorld struct {
	*bare
	ctx *efaContext
	cq  *cq
	qp  *qp
	to  bareAH
}

// Keys of the kernel's memory.
const (
	keyCQ     = 1 << 12
	keyCQBell = 2 << 12
	keyWQEs   = 3 << 12
	keySQBell = 4 << 12
	keyRQ     = 5 << 12
	keyRQBell = 6 << 12
	bareQPN   = 0x105
)

type bareOptions struct {
	typ    verbs.QPType
	cap    verbs.QPCap
	limits abi.EfaIbvAllocUcontextResp
	attr   abi.EfaIbvExQueryDeviceResp
	flags  verbs.QPFlags
	ext    verbs.WCExtMask
	cqe    uint32
}

const allCaps = 1<<10 - 1

func newBareWorld(t testing.TB, change func(*bareOptions)) *bareWorld {
	t.Helper()
	o := bareOptions{typ: verbs.QPTypeSRD, cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2}, cqe: 8}
	o.limits = abi.EfaIbvAllocUcontextResp{SubCqsPerCq: 1, MaxLlqSize: 1 << 18, InlineBufSizeEx: longInline}
	o.attr = abi.EfaIbvExQueryDeviceResp{MaxSqWr: 4096, MaxRqWr: 32768, DeviceCaps: allCaps &^ abi.EFA_QUERY_DEVICE_CAPS_SQ_64_BIT_REQ_ID}
	if change != nil {
		change(&o)
	}
	w := &bareWorld{bare: newBare(t), ctx: &efaContext{limits: o.limits, attr: o.attr, generations: make(map[uint32]uint32), slots: 256}}
	w.newCQ(o.cqe, o.ext)
	p := &pd{ahs: make(map[verbs.GID]*address)}
	w.qp = w.newQP(&driver.CreateQP{Type: o.typ, Cap: o.cap, Flags: o.flags, PD: p, Num: bareQPN})
	w.to = bareAH{ah: &ah{pd: p, number: 0x7a1}}
	former := driver.AHData
	driver.AHData = func(a verbs.AH) any {
		if b, ok := a.(bareAH); ok {
			return b.ah
		}
		return nil
	}
	t.Cleanup(func() { driver.AHData = former })
	return w
}

// newQP returns another QP of the CQ, in RTS.
func (w *bareWorld) newQP(r *driver.CreateQP) *qp {
	w.t.Helper()
	w.out = abi.Bytes(&abi.EfaIbvCreateQpResp{RqDbOffset: 8, SqDbOffset: 4, LlqDescOffset: 128, RqMmapKey: keyRQ, RqMmapSize: 4096,
		RqDbMmapKey: keyRQBell, SqDbMmapKey: keySQBell, LlqDescMmapKey: keyWQEs})
	r.Call, r.SendCQ, r.RecvCQ = w, w.cq, w.cq
	made, err := w.ctx.CreateQP(r)
	if err != nil {
		w.t.Fatal(err)
	}
	q := made.(*qp)
	q.state = verbs.QPStateRTS
	return q
}

func (w *bareWorld) newCQ(cqe uint32, ext verbs.WCExtMask) {
	w.t.Helper()
	size := uint64(pow2(cqe)) * cqeSize * uint64(w.ctx.limits.SubCqsPerCq)
	w.out = abi.Bytes(&abi.EfaIbvCreateCqResp{CompMask: 1, QMmapKey: keyCQ, QMmapSize: roundUp(size, 4096), DbOff: 16, DbMmapKey: keyCQBell})
	made, err := w.ctx.CreateCQ(&driver.CreateCQ{Call: w, CQE: cqe, Ext: ext})
	if err != nil {
		w.t.Fatal(err)
	}
	w.cq = made.(*cq)
}

// write stores a completion in a CQ's ring, with the phase of a lap.
func (w *bareWorld) write(at int, lap uint32, e [cqeSize]byte) {
	e[3] = e[3]&^1 | byte(lap+1)&1
	copy(w.memory[keyCQ].Bytes()[at*cqeSize:], e[:])
}

func (w *bareWorld) poll() []verbs.WC {
	w.t.Helper()
	wcs := make([]verbs.WC, 16)
	n, _, err := w.cq.Poll(wcs)
	if err != nil {
		w.t.Fatal(err)
	}
	return wcs[:n]
}

// send posts one send and returns its entry as the device has it.
func (w *bareWorld) send(wr verbs.SendWR) []byte {
	w.t.Helper()
	w.copies, w.stores = nil, nil
	wr.AH = w.to
	if n, err := w.qp.PostSend([]verbs.SendWR{wr}); n != 1 || err != nil {
		w.t.Fatal(n, err)
	}
	var e []byte
	for _, c := range w.copies {
		e = append(e, c[:]...)
	}
	return e
}

func createCQ(w *bareWorld, channel bool) *driver.CreateCQ {
	return &driver.CreateCQ{Call: w, CQE: 4, HasChannel: channel}
}
