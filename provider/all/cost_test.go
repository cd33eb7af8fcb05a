package all_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	fakerxe "github.com/goverbs/goverbs/internal/fakeverbs/rxe"
	fakesiw "github.com/goverbs/goverbs/internal/fakeverbs/siw"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// rig is a connected RC QP on the fake kernel, whose doorbells cost nothing.
type rig struct {
	quiet quietFile
	qp    *uverbs.QP
	cq    *uverbs.CQ
	kqp   *fakeverbs.QP
	kcq   *fakeverbs.CQ
}

// quietFile answers the hot path's system calls without the kernel.
type quietFile struct {
	ioctl.File
	on atomic.Bool
}

func (f *quietFile) Ioctl(r *ioctl.Request) error {
	if f.on.Load() {
		return nil
	}
	return f.File.Ioctl(r)
}

const (
	queueDepth = 2047
	perRound   = 1024 // work requests or completions between two looks at the clock
)

func newRig(b *testing.B, driver verbs.DriverID, version uint32) *rig {
	k := fakeverbs.New(uint32(driver))
	r := &rig{quiet: quietFile{File: k}}
	dev := providertest.Must[*uverbs.Device](b)(providertest.OpenOn(uverbs.DeviceInfo{Name: driver.String() + "0", Driver: driver, ABI: version}, &r.quiet))
	pd := providertest.Must[*uverbs.PD](b)(dev.AllocPD())
	ch := providertest.Must[*uverbs.CompChannel](b)(dev.CreateCompChannel())
	r.cq = providertest.Must[*uverbs.CQ](b)(dev.CreateCQ(queueDepth, &uverbs.CQOptions{Channel: ch}))
	r.qp = providertest.Must[*uverbs.QP](b)(pd.CreateQP(&uverbs.QPOptions{SendCQ: r.cq, RecvCQ: r.cq,
		Cap: verbs.QPCap{MaxSendWR: queueDepth, MaxRecvWR: queueDepth, MaxSendSGE: 4, MaxRecvSGE: 1, MaxInline: 64}}))
	r.kqp, r.kcq = k.QueuePairs()[0], k.CQs()[0]
	r.connect(b, driver)
	b.Cleanup(func() {
		r.quiet.on.Store(false)
		for _, c := range []interface{ Close() error }{r.qp, r.cq, ch, pd, dev} {
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	r.quiet.on.Store(true)
	return r
}

func (r *rig) connect(b *testing.B, driver verbs.DriverID) {
	if driver == verbs.DriverSIW {
		r.kqp.Connect(16, 16)
		if _, err := r.qp.PostSend(nil); err != nil { // which finds out
			b.Fatal(err)
		}
		return
	}
	to := verbs.AHAttr{Global: true, SGIDIndex: 1, DGID: fakeverbs.IPv4GID, Port: 1}
	if err := errors.Join(r.qp.Init(nil), r.qp.Connect(&verbs.QPAttr{DestQPN: 17, AH: to})); err != nil {
		b.Fatal(err)
	}
}

func (r *rig) takeSends() {
	for ok := true; ok; {
		if fakesiw.QPOf(r.kqp) != nil {
			_, ok = fakesiw.QPOf(r.kqp).TakeSend()
		} else {
			_, ok = fakerxe.QPOf(r.kqp).TakeSend()
		}
	}
}

func (r *rig) takeRecvs() {
	for ok := true; ok; {
		if fakesiw.QPOf(r.kqp) != nil {
			_, ok = fakesiw.QPOf(r.kqp).TakeRecv()
		} else {
			_, ok = fakerxe.QPOf(r.kqp).TakeRecv()
		}
	}
}

func (r *rig) complete() {
	for i := range uint64(perRound) {
		if fakesiw.CQOf(r.kcq) != nil {
			fakesiw.CQOf(r.kcq).Complete(abi.SiwCqe{Id: i, Bytes: 64, QpId: 1})
		} else {
			fakerxe.CQOf(r.kcq).Complete(abi.IbUverbsWc{WrId: i, ByteLen: 64, QpNum: 1, Opcode: abi.IB_WC_RECV})
		}
	}
}

// BenchmarkHotPath measures the cost of an element in user space, in lists of 1, 16 and 64,
// on rings in plain memory. The figure is the median of rounds; filling and emptying the
// rings happens off the clock.
func BenchmarkHotPath(b *testing.B) {
	for _, driver := range []struct {
		id  verbs.DriverID
		abi uint32
	}{{verbs.DriverSIW, 1}, {verbs.DriverRXE, 2}} {
		for _, list := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%v/list=%d", driver.id, list), func(b *testing.B) {
				benchHotPath(b, newRig(b, driver.id, driver.abi), list)
			})
		}
	}
}

func benchHotPath(b *testing.B, r *rig, list int) {
	sgl := []verbs.SGE{{Addr: 1 << 32, Length: 64, LKey: 7}}
	sends, inline, recvs := make([]verbs.SendWR, list), make([]verbs.SendWR, list), make([]verbs.RecvWR, list)
	for i := range list {
		sends[i] = verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: sgl}
		inline[i] = verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Inline: make([]byte, 64)}
		recvs[i] = verbs.RecvWR{WRID: uint64(i), SGL: sgl}
	}
	wcs := make([]verbs.WC, list)
	nothing := func() {}
	r.bench(b, "PostSend", list, func() (int, error) { return r.qp.PostSend(sends) }, nothing, r.takeSends)
	r.bench(b, "PostSendInline", list, func() (int, error) { return r.qp.PostSend(inline) }, nothing, r.takeSends)
	r.bench(b, "PostRecv", list, func() (int, error) { return r.qp.PostRecv(recvs) }, nothing, r.takeRecvs)
	r.bench(b, "Poll", list, func() (int, error) { return r.cq.Poll(wcs) }, r.complete, nothing)
	if list > 1 {
		return
	}
	r.bench(b, "PollEmpty", 1, func() (int, error) { n, err := r.cq.Poll(wcs); return n + 1, err }, nothing, nothing)
	r.bench(b, "Arm", 1, func() (int, error) { return 1, r.cq.Arm(false) }, nothing, nothing)
}

// bench measures call, which handles list elements, and calls it for perRound elements in
// each round.
func (r *rig) bench(b *testing.B, name string, list int, call func() (int, error), before, after func()) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		rounds := make([]float64, 0, 4096) // enough, and no allocation in the loop
		for b.Loop() {
			before()
			start := time.Now()
			for range perRound / list {
				if n, err := call(); n != list || err != nil {
					b.Fatal(n, err)
				}
			}
			if len(rounds) < cap(rounds) {
				rounds = append(rounds, float64(time.Since(start).Nanoseconds())/perRound)
			}
			after()
		}
		slices.Sort(rounds)
		b.ReportMetric(0, "ns/op") // drops a round's time, which includes the parts off the clock
		b.ReportMetric(rounds[len(rounds)/2], "ns/element")
	})
}
