package uverbs_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRegMRKeepsSlice has nobody but a region know of a slice while the collector
// runs and the stack moves.
func TestRegMRKeepsSlice(t *testing.T) {
	w := newWorld(t)
	mr := must[*uverbs.MR](t)(w.pd.RegMR(make([]byte, 3*4096), verbs.AccessLocalWrite))
	addr := mr.Addr()
	for i := range mr.Bytes() {
		mr.Bytes()[i] = 0xa5
	}
	for range 3 {
		grow(1000)
		runtime.GC()
		_ = make([]byte, 3*4096)
	}
	if mr.Addr() != addr {
		t.Errorf("moved from %#x to %#x", addr, mr.Addr())
	}
	for i, b := range mr.Bytes() {
		if b != 0xa5 {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
	k := w.k.MRs()[1]
	if k.Start != addr || k.Length != 3*4096 || k.Access != uint32(verbs.AccessLocalWrite) || mr.LKey() != k.Key || mr.RKey() != k.Key {
		t.Errorf("the kernel has %+v", k)
	}
	if sge := mr.SGE(10, 20); sge != (verbs.SGE{Addr: addr + 10, Length: 20, LKey: k.Key}) {
		t.Errorf("%+v", sge)
	}
	if err := mr.Close(); err != nil {
		t.Fatal(err)
	}
}

func grow(n int) int {
	var room [128]byte
	if n == 0 {
		return int(room[0])
	}
	return grow(n-1) + int(room[n%128])
}

// TestRegMRLetsGo has a slice be collected once its region is closed, or was
// refused.
func TestRegMRLetsGo(t *testing.T) {
	w := newWorld(t)
	for _, refuse := range []bool{false, true} {
		collected := make(chan struct{})
		func() {
			b := new([4096]byte)
			runtime.SetFinalizer(b, func(*[4096]byte) { close(collected) })
			if refuse {
				w.k.Fail("REG_MR", 0, syscall.ENOMEM)
			}
			mr, err := w.pd.RegMR(b[:], 0)
			if refuse != (err != nil) {
				t.Error(err)
			}
			if err == nil {
				if err := mr.Close(); err != nil {
					t.Error(err)
				}
			}
		}()
		_ = within(t, "the collector", run(func() error {
			for {
				runtime.GC()
				select {
				case <-collected:
					return nil
				default:
				}
			}
		}))
	}
}

func TestRefusedMemory(t *testing.T) {
	w := newWorld(t)
	for name, err := range map[string]error{
		"nil":      failed(w.pd.RegMR(nil, 0)),
		"empty":    failed(w.pd.RegMR([]byte{}, 0)),
		"size 0":   failed(w.pd.AllocMR(0, 0, nil)),
		"negative": failed(w.pd.AllocMR(-1, 0, nil)),
	} {
		if !errors.Is(err, syscall.EINVAL) && !strings.Contains(err.Error(), "invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.pd.AllocMR(1, verbs.AccessRemoteWrite, nil); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "AccessLocalWrite") {
		t.Error(err)
	}
}

func TestAllocMRSize(t *testing.T) {
	w := newWorld(t)
	mr := must[*uverbs.MR](t)(w.pd.AllocMR(5, 0, nil))
	defer mr.Close()
	if mr.Len() != 5 || len(mr.Bytes()) != 5 || cap(mr.Bytes()) != 5 {
		t.Errorf("%d bytes, room for %d", len(mr.Bytes()), cap(mr.Bytes()))
	}
}

// TestBytesAfterClose: Bytes hands out nothing once the memory is gone, and all of it
// while a Close has failed.
func TestBytesAfterClose(t *testing.T) {
	w := newWorld(t)
	mine := make([]byte, 4096)
	for name, mr := range map[string]*uverbs.MR{
		"allocated": must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil)),
		"caller's":  must[*uverbs.MR](t)(w.pd.RegMR(mine, verbs.AccessLocalWrite)),
	} {
		w.k.Fail("MR_DESTROY", 0, syscall.EBUSY)
		if err := mr.Close(); !errors.Is(err, syscall.EBUSY) || len(mr.Bytes()) != 4096 {
			t.Errorf("%s, after a Close that failed: %d bytes, %v", name, len(mr.Bytes()), err)
		}
		if err := mr.Close(); err != nil || mr.Bytes() != nil || mr.Len() != 4096 {
			t.Errorf("%s, after Close: %d bytes, Len %d, %v", name, len(mr.Bytes()), mr.Len(), err)
		}
	}
}

// TestBytesBesideClose: once Bytes was nil it stays so, and it is nil when Close is done.
func TestBytesBesideClose(t *testing.T) {
	w := newWorld(t)
	for range 100 {
		mr := must[*uverbs.MR](t)(w.pd.AllocMR(4096, verbs.AccessLocalWrite, nil))
		seen := make(chan bool)
		go func() {
			for mr.Bytes() != nil {
				runtime.Gosched()
			}
			seen <- mr.Bytes() == nil
		}()
		if err := mr.Close(); err != nil || mr.Bytes() != nil {
			t.Fatal(len(mr.Bytes()), err)
		}
		if !<-seen {
			t.Fatal("Bytes came back")
		}
	}
}

// TestSGEOutOfReach: what an SGE can't name is named so that every post refuses it.
func TestSGEOutOfReach(t *testing.T) {
	w := newWorld(t)
	w.kqp().Connect()
	for _, c := range []struct{ off, n int }{{0, 5 << 30}, {0, 1 << 32}, {0, 1<<32 - 1}, {1 << 40, 1 << 40}, {0, math.MaxInt}, {0, -1}, {0, math.MinInt}, {-1, 1}} {
		sgl := []verbs.SGE{w.mr.SGE(c.off, c.n)}
		if sgl[0].Length != verbs.BadLength {
			t.Errorf("%+v: %+v", c, sgl)
		}
		for name, post := range map[string]func() (int, error){
			"send":    func() (int, error) { return w.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGL: sgl}}) },
			"receive": func() (int, error) { return w.qp.PostRecv([]verbs.RecvWR{{SGL: sgl}}) },
			"SRQ":     func() (int, error) { return w.srq.PostRecv([]verbs.RecvWR{{SGL: sgl}}) },
		} {
			if n, err := post(); n != 0 || !errors.Is(err, verbs.ErrInvalidWR) {
				t.Errorf("%s of %+v: %d, %v", name, c, n, err)
			}
		}
	}
	if got := w.mr.SGE(3, 1<<32-2); got.Length != 1<<32-2 || got.Addr != w.mr.Addr()+3 {
		t.Errorf("%+v", got)
	}
}
