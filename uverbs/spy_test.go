package uverbs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/mmap"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// spy is a driver that implements every optional interface and counts the calls. Every call to the
// kernel has private bytes, and spyFile returns the same bytes.
type spy struct {
	mu        sync.Mutex
	counts    map[string]int
	calls     []string // in order
	fail      string   // the hook that fails next
	tellsNoQP bool     // no Cleaner
	survives  bool     // QPs survive errors other than flushes
	queryMask verbs.QPAttrMask
	busy      func(done bool) // called by Destroy and Modify before and after the kernel's call
	table     driver.Table[spyQP]
	device    driver.Device
	page      *mmap.Page
	stores    []mmap.Store
	uar       uint32
	attr      *verbs.DeviceAttr
	cqs       []*spyCQ
}

var errSpy = errors.New("the spy gave up")

func (s *spy) ID() verbs.DriverID    { return verbs.DriverUSNIC }
func (s *spy) ABI() (uint32, uint32) { return 0, 9 }

// hook counts a call, and fails once if s.fail names it.
func (s *spy) hook(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[name]++
	s.calls = append(s.calls, name)
	if s.fail == name {
		s.fail = ""
		return errSpy
	}
	return nil
}

func (s *spy) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[name]
}

// do makes the kernel's call with private bytes. It may fail before or after it.
func (s *spy) do(name string, c driver.Call, extra ...driver.Attr) error {
	if err := s.hook("before " + name); err != nil {
		return err
	}
	in, out := []byte(name+" here"), make([]byte, len(name)+5)
	if err := c.Do(driver.UHW{In: in, Out: out}, extra...); err != nil {
		return err
	}
	if !bytes.Equal(in, out) {
		return fmt.Errorf("the kernel answers %s with %q", name, out)
	}
	return s.hook("after " + name)
}

// Objects and methods of the driver's own: a page of registers.
const (
	spyObject   = 0x1008
	spyMake     = 0x1000
	spyHandle   = 0x1000
	spyKind     = 0x1001
	spyOffset   = 0x1002
	spyExtended = 0x1003 // of CQ_CREATE
)

func (s *spy) Open(r *driver.Open) (driver.Context, error) {
	if err := s.do("open", r); err != nil {
		return nil, err
	}
	s.device = r.Device
	attrs := []driver.Attr{{ID: spyHandle, New: true}, {ID: spyKind, In: []byte{1, 0, 0, 0}}, {ID: spyOffset, Out: make([]byte, 8)}}
	if err := r.Device.Invoke(spyObject, spyMake, attrs...); err != nil {
		return nil, err
	}
	var err error
	if s.page, err = r.Device.MapPage(int64(attrs[2].Out[0])<<12, 4096); err != nil {
		return nil, err
	}
	s.uar = attrs[0].Handle
	s.attr, err = r.Device.Query(make([]byte, 16))
	return s, err
}

func (s *spy) Close() error                             { return s.hook("close") }
func (s *spy) AllocPD(r *driver.AllocPD) (any, error)   { return &spyData{s, "PD"}, s.do("PD", r) }
func (s *spy) RegMR(r *driver.RegMR) error              { return s.do("MR", r) }
func (s *spy) AllocMW(r *driver.AllocMW) error          { return s.do("MW", r) }
func (s *spy) CreateAH(r *driver.CreateAH) (any, error) { return &spyData{s, "AH"}, s.do("AH", r) }

// spyData is the data of a PD or an AH.
type spyData struct {
	*spy
	kind string
}

func (d *spyData) AHNumber() uint16 { return 7 }

func (d *spyData) Destroy(do func() error) error { return d.destroy(d.kind, do) }

func (s *spy) destroy(kind string, do func() error) error {
	if err := s.hook("destroy " + kind); err != nil {
		return err
	}
	s.work(false)
	if err := do(); err != nil {
		return err
	}
	s.work(true)
	return nil
}

func (s *spy) work(done bool) {
	if s.busy != nil {
		s.busy(done)
	}
}

// queue allocates and maps memory of every kind for an object.
func (s *spy) queue(r driver.Call) error {
	if _, err := r.Alloc(5000, nil); err != nil {
		return err
	}
	for offset := range int64(2) {
		if _, err := r.Map(offset<<12, 4096, mmap.ProtRead); err != nil {
			return err
		}
	}
	_, err := r.MapPage(3<<12, 4096)
	return err
}

func (s *spy) CreateCQ(r *driver.CreateCQ) (driver.CQ, error) {
	if err := s.queue(r); err != nil {
		return nil, err
	}
	if err := s.do("CQ", r, driver.Attr{ID: spyExtended, In: []byte{7}}); err != nil {
		return nil, err
	}
	q := &spyCQ{spy: s}
	s.cqs = append(s.cqs, q)
	if s.tellsNoQP {
		return struct {
			driver.CQ
			driver.ExtPoller
			driver.Destroyer
		}{q, q, q}, nil
	}
	return q, nil
}

type spyCQ struct {
	*spy
	ring struct {
		sync.Mutex
		wcs []verbs.WC
	}
}

func (q *spyCQ) push(wcs ...verbs.WC) {
	q.ring.Lock()
	defer q.ring.Unlock()
	q.ring.wcs = append(q.ring.wcs, wcs...)
}

func (q *spyCQ) Poll(wcs []verbs.WC) (n int, bad bool, err error) {
	q.ring.Lock()
	defer q.ring.Unlock()
	n = copy(wcs, q.ring.wcs)
	q.ring.wcs = q.ring.wcs[n:]
	return n, slices.ContainsFunc(wcs[:n], func(wc verbs.WC) bool { return wc.Status != 0 }), q.hook("poll")
}

// PollExt returns the work request's WRID as its timestamp.
func (q *spyCQ) PollExt(wcs []verbs.WC, ext []verbs.WCExt) (n int, bad bool, err error) {
	n, bad, err = q.Poll(wcs)
	for i := range n {
		ext[i] = verbs.WCExt{Timestamp: wcs[i].WRID, VLAN: 7}
	}
	return n, bad, err
}

func (q *spyCQ) Arm(bool) error { return q.hook("arm") }
func (q *spyCQ) Event()         { _ = q.hook("event") }

func (q *spyCQ) Resize(r *driver.ResizeCQ) error {
	memory, err := r.Alloc(1, nil)
	if err != nil {
		return err
	}
	if err := q.do("resize", r); err != nil {
		return err
	}
	return r.Free(memory)
}

func (q *spyCQ) Clean(qp any) {
	_ = q.hook("clean")
	q.ring.Lock()
	defer q.ring.Unlock()
	q.ring.wcs = slices.DeleteFunc(q.ring.wcs, func(wc verbs.WC) bool { return wc.QPN == qp.(*spyQP).num })
}

func (q *spyCQ) Destroy(do func() error) error { return q.destroy("CQ", do) }

func (s *spy) CreateQP(r *driver.CreateQP) (driver.QP, error) {
	if err := s.queue(r); err != nil {
		return nil, err
	}
	if err := s.do("QP", r); err != nil {
		return nil, err
	}
	q := &spyQP{spy: s, num: r.Num}
	return q, s.table.Set(q.num, q)
}

type spyQP struct {
	*spy
	num    uint32
	posted []verbs.WC
}

func (q *spyQP) PostSend(wrs []verbs.SendWR) (int, error) {
	for i := range wrs {
		q.posted = append(q.posted, verbs.WC{WRID: wrs[i].WRID, QPN: q.num, Status: verbs.StatusWRFlushErr})
	}
	q.page.Store64(64, uint64(len(wrs)))
	return len(wrs), q.hook("send")
}

func (q *spyQP) PostRecv(wrs []verbs.RecvWR) (int, error) { return len(wrs), q.hook("recv") }

func (q *spyQP) Modify(r *driver.ModifyQP) error {
	q.work(false)
	err := q.do("modify", r)
	_ = q.hook(fmt.Sprintf("%v to %v", r.From, r.To))
	q.work(true)
	return err
}

func (q *spyQP) Flush() driver.Flushed {
	_ = q.hook("flush")
	f := driver.Flushed{Send: q.posted}
	q.posted = nil
	return f
}

func (q *spyQP) Survives(wc *verbs.WC) bool { return q.survives && wc.Status != verbs.StatusWRFlushErr }

func (q *spyQP) QueryMask() verbs.QPAttrMask { return q.queryMask }

// FlushedByErr makes uverbs move the QP to ERR again after each post.
func (q *spyQP) FlushedByErr() bool { return true }

func (q *spyQP) Destroy(do func() error) error {
	err := q.destroy("QP", do)
	if err == nil {
		q.table.Delete(q.num, q)
	}
	return err
}

func (s *spy) CreateSRQ(r *driver.CreateSRQ) (driver.SRQ, error) {
	r.Lock.Lock()
	defer r.Lock.Unlock()
	return &spySRQ{s}, s.do("SRQ", r)
}

type spySRQ struct{ *spy }

func (q *spySRQ) PostRecv(wrs []verbs.RecvWR) (int, error) { return len(wrs), q.hook("srq recv") }
func (q *spySRQ) Modify(r *driver.ModifySRQ) error         { return q.do("srq modify", r) }
func (q *spySRQ) Destroy(do func() error) error            { return q.destroy("SRQ", do) }

// spyFile is the kernel's half of the driver.
type spyFile struct {
	*fakeverbs.Kernel
	spy       *spy
	destroyed func() // called after the kernel has destroyed a QP, before Close returns
}

func (f *spyFile) Ioctl(r *ioctl.Request) error {
	if h := r.Header(); h.ObjectId == spyObject {
		if kind, ok := r.Value(spyKind); h.MethodId != spyMake || !ok || kind != 1 {
			return errSpy
		}
		r.SetObject(spyHandle, 42)
		ioctl.Answer(r, spyOffset, &[8]byte{2})
		return nil
	}
	if err := f.Kernel.Ioctl(r); err != nil {
		return err
	}
	in, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
	if out, ok := r.Bytes(abi.UVERBS_ATTR_UHW_OUT); ok {
		copy(out, in)
	}
	if h := r.Header(); f.destroyed != nil && h.ObjectId == abi.UVERBS_OBJECT_QP && h.MethodId == abi.UVERBS_METHOD_QP_DESTROY {
		destroyed := f.destroyed
		f.destroyed = nil
		destroyed()
	}
	return nil
}

func (f *spyFile) Map(_ int64, length int, _ mmap.Prot) (*mmap.Region, error) {
	return mmap.Wrap(make([]byte, length))
}

func (f *spyFile) MapPage(_ int64, length int) (*mmap.Page, error) {
	region, err := mmap.Anonymous(length, nil)
	if err != nil {
		return nil, err
	}
	return mmap.NewPage(region, func(s mmap.Store) { f.spy.stores = append(f.spy.stores, s) })
}

func newSpy(t *testing.T, tellsNoQP bool) (*spy, *spyFile) {
	s := &spy{counts: make(map[string]int), tellsNoQP: tellsNoQP, queryMask: verbs.QPAttrState}
	driver.Register(s)
	f := &spyFile{Kernel: fakeverbs.New(uint32(verbs.DriverUSNIC)), spy: s}
	f.Own = map[uint16]bool{spyExtended: true}
	noLeaks(t, f.Kernel)
	return s, f
}

var spyInfo = uverbs.DeviceInfo{Name: "spy0", Driver: verbs.DriverUSNIC, Ports: 1}

// spyWorld is a QP of the spy with its parents.
type spyWorld struct {
	*spy
	file *spyFile
	dev  *uverbs.Device
	pd   *uverbs.PD
	ch   *uverbs.CompChannel
	cq   *uverbs.CQ
	qp   *uverbs.QP
}

func newSpyWorld(t *testing.T, tellsNoQP bool) *spyWorld {
	w := &spyWorld{}
	w.spy, w.file = newSpy(t, tellsNoQP)
	w.dev = must[*uverbs.Device](t)(openOn(spyInfo, w.file))
	w.pd = must[*uverbs.PD](t)(w.dev.AllocPD())
	w.ch = must[*uverbs.CompChannel](t)(w.dev.CreateCompChannel())
	w.cq = must[*uverbs.CQ](t)(w.dev.CreateCQ(16, &uverbs.CQOptions{Channel: w.ch}))
	w.qp = w.newQP(t)
	t.Cleanup(func() { closeAll(t, w.qp, w.cq, w.ch, w.pd, w.dev) })
	return w
}

func (w *spyWorld) newQP(t *testing.T) *uverbs.QP {
	t.Helper()
	return must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4}}))
}

// walk performs every operation that has a hook and returns the first error. It closes all objects,
// and tries again if Close fails.
func (w *spyWorld) walk() (err error) {
	try := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	var opened []closer
	made := func(c closer, e error) {
		if err = e; e == nil {
			opened = append(opened, c)
		}
	}
	defer func() {
		for _, c := range slices.Backward(opened) {
			if e := c.Close(); e != nil {
				err = errors.Join(err, e, c.Close())
			}
		}
	}()
	dev, e := openOn(spyInfo, w.file)
	if made(dev, e); e != nil {
		return e
	}
	pd, e := dev.AllocPD()
	if made(pd, e); e != nil {
		return e
	}
	for _, f := range []func() (closer, error){
		func() (closer, error) { return pd.AllocMR(4096, 0, nil) },
		func() (closer, error) { return pd.AllocMW(verbs.MWType2) },
		func() (closer, error) {
			return pd.CreateAH(&verbs.AHAttr{Global: true, DGID: fakeverbs.GID, Port: 1})
		},
	} {
		try(func() error { made(f()); return err })
	}
	if err != nil {
		return err
	}
	srq, e := pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4})
	if made(srq, e); e != nil {
		return e
	}
	ch, e := dev.CreateCompChannel()
	if made(ch, e); e != nil {
		return e
	}
	cq, e := dev.CreateCQ(16, &uverbs.CQOptions{Channel: ch})
	if made(cq, e); e != nil {
		return e
	}
	qp, e := pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4}})
	if made(qp, e); e != nil {
		return e
	}
	wcs := make([]verbs.WC, 8)
	for _, f := range []func() error{
		func() error { return srq.SetLimit(1) },
		func() error { return failed(srq.PostRecv(make([]verbs.RecvWR, 1))) },
		func() error { return cq.Resize(8) },
		func() error { return cq.Arm(false) },
		func() error { return qp.Init(nil) },
		func() error { return failed(qp.PostSend(make([]verbs.SendWR, 1))) },
		func() error { return failed(qp.PostRecv(make([]verbs.RecvWR, 1))) },
		func() error { return failed(cq.Poll(wcs)) },
		func() error { w.file.CQs()[0].Event(); return failed(ch.Get(context.Background())) },
		func() error { return qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState) },
		func() error { return failed(qp.PostRecv(make([]verbs.RecvWR, 1))) },
		func() error { return qp.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState) },
	} {
		try(f)
	}
	return err
}

// TestDriverHooks walks through everything once: each hook is called, the bytes of each
// call reach the kernel and come back, and each store to the device is seen.
func TestDriverHooks(t *testing.T) {
	w := &spyWorld{}
	w.spy, w.file = newSpy(t, false)
	if err := w.walk(); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{
		"after open", "after PD", "after MR", "after MW", "after AH", "after SRQ", "after CQ", "after QP", "after modify",
		"after srq modify", "after resize", "srq recv", "arm", "send", "recv", "poll", "event", "flush", "clean",
		"RESET to INIT", "INIT to ERR", "ERR to ERR", "ERR to RESET",
		"destroy PD", "destroy AH", "destroy SRQ", "destroy CQ", "destroy QP", "close",
	} {
		if w.counts[hook] == 0 {
			t.Errorf("%s: never", hook)
		}
	}
	if len(w.stores) != 1 || w.stores[0].Kind != mmap.StorePlain || w.stores[0].Offset != 64 || w.stores[0].Value != 1 || w.uar != 42 {
		t.Errorf("stores %+v to page %d", w.stores, w.uar)
	}
	if w.attr == nil || w.attr.MaxQP != fakeverbs.MaxQP {
		t.Errorf("%+v", w.attr)
	}
}

// TestDriverHookFails lets each hook fail once, and checks that the caller gets the error, the second
// walk succeeds, and nothing leaks.
func TestDriverHookFails(t *testing.T) {
	all := &spyWorld{}
	all.spy, all.file = newSpy(t, false)
	if err := all.walk(); err != nil {
		t.Fatal(err)
	}
	silent := map[string]bool{"event": true, "flush": true, "clean": true} // return no error
	for _, hook := range slices.Sorted(maps.Keys(all.counts)) {
		if silent[hook] || strings.Contains(hook, " to ") {
			continue
		}
		t.Run(hook, func(t *testing.T) {
			live := regions.Live()
			w := &spyWorld{}
			w.spy, w.file = newSpy(t, false)
			w.fail = hook
			if err := w.walk(); !errors.Is(err, errSpy) {
				t.Errorf("the walk says %v", err)
			}
			if regions.Live() != live {
				t.Errorf("%d regions live, %d before", regions.Live(), live)
			}
		})
	}
}

// TestDriverDevice calls the methods of driver.Device.
func TestDriverDevice(t *testing.T) {
	w := newSpyWorld(t, false)
	d := w.device
	if i := d.Info(); i != (driver.Info{Name: "spy0", Ports: 1}) {
		t.Errorf("%+v", i)
	}
	if e, err := d.GID(1, 0); err != nil || e.GID != fakeverbs.GID {
		t.Errorf("%v, %v", e, err)
	}
	pd := must[uint32](t)(d.AllocPD(driver.UHW{}))
	queue := must[*mmap.Region](t)(d.Alloc(4096, nil))
	mr := must[uint32](t)(d.RegisterQueue(pd, queue, driver.UHW{In: make([]byte, 8)}))
	if got := w.file.MRs()[0]; got.Start != queue.Addr() || got.Length != 4096 || got.PD != pd {
		t.Errorf("%+v", got)
	}
	if err := errors.Join(d.DeregisterQueue(mr), d.DeallocPD(pd), d.Free(queue)); err != nil {
		t.Error(err)
	}
	if err := d.Free(queue); err == nil {
		t.Error("freed twice")
	}
	if err := d.Invoke(spyObject, 0x1001); !errors.Is(err, errSpy) {
		t.Error(err)
	}
}
