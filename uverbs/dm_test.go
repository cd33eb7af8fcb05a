package uverbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// dmWorld has device memory, and a region of it.
type dmWorld struct {
	*hard
	dm *uverbs.DM
	mr *uverbs.MR
}

func newDM(t testing.TB) *dmWorld {
	t.Helper()
	w := &dmWorld{hard: newHard(t)}
	w.dm = must[*uverbs.DM](t)(w.dev.AllocDM(4096, 64))
	w.mr = must[*uverbs.MR](t)(w.pd.RegDM(w.dm, 1024, 2048, verbs.AccessLocalWrite|verbs.AccessRemoteWrite))
	t.Cleanup(func() { closeAll(t, w.mr, w.dm) })
	return w
}

func TestDMEveryErrno(t *testing.T) {
	everyErrno(t, "hollow0", newDM, []verb[*dmWorld]{
		{"AllocDM", []string{"DM_ALLOC"}, "allocate DM on hollow0", func(w *dmWorld) error { return closing(w.dev.AllocDM(8, 0)) }},
		{"RegDM", []string{"DM_MR_REG"}, "create MR on hollow0", func(w *dmWorld) error {
			return closing(w.pd.RegDM(w.dm, 0, 8, verbs.AccessLocalWrite))
		}},
		{"MR.Close", []string{"MR_DESTROY"}, "close MR ", func(w *dmWorld) error { return w.mr.Close() }},
		{"DM.Close", []string{"DM_FREE"}, "close DM ", func(w *dmWorld) error {
			if err := w.mr.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				return err
			}
			return w.dm.Close()
		}},
	})
}

func TestDM(t *testing.T) {
	w := newDM(t)
	if k := w.k.DMs()[0]; k.Length != 4096 || k.LogAlign != 6 || w.dm.Len() != 4096 {
		t.Errorf("%+v", k)
	}
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessZeroBased
	if k := w.k.MRs()[0]; k.DM != w.k.DMs()[0] || k.Offset != 1024 || k.Length != 2048 || k.Access != uint32(access) {
		t.Errorf("%+v", k)
	}
	if w.mr.Addr() != 0 || w.mr.Len() != 2048 || w.mr.Bytes() != nil || w.mr.SGE(16, 8) != (verbs.SGE{Addr: 16, Length: 8, LKey: w.mr.LKey()}) {
		t.Errorf("%#x, %d bytes", w.mr.Addr(), w.mr.Len())
	}
	if n, err := w.dm.WriteAt([]byte("device memory it"), 4084); n != 12 || err != io.EOF {
		t.Errorf("%d, %v", n, err)
	}
	got := make([]byte, 20)
	if n, err := w.dm.ReadAt(got, 4080); n != 16 || err != io.EOF || !bytes.Equal(got[4:16], []byte("device memor")) {
		t.Errorf("%d, %v, %q", n, err, got)
	}
	for _, offset := range []int64{4096, 1 << 62} {
		if n, err := w.dm.ReadAt(got, offset); n != 0 || err != io.EOF {
			t.Errorf("%d, %v", n, err)
		}
	}
	if err := w.dm.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "MR") {
		t.Error(err)
	}
	closeAll(t, w.mr, w.dm)
	if _, err := w.dm.ReadAt(got, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

func TestDMRefused(t *testing.T) {
	w := newDM(t)
	reg := func(dm *uverbs.DM, offset uint64, length int) error { return failed(w.pd.RegDM(dm, offset, length, 0)) }
	for want, err := range map[string]error{
		"not a power of two":         failed(w.dev.AllocDM(8, 3)),
		"no device memory given":     reg(nil, 0, 1),
		"0 bytes at offset 0":        reg(w.dm, 0, 0),
		"2 bytes at offset 4095":     reg(w.dm, 4095, 2),
		"1 bytes at offset 4097":     reg(w.dm, 4097, 1),
		"AccessLocalWrite":           failed(w.pd.RegDM(w.dm, 0, 8, verbs.AccessRemoteWrite)),
		"the offset is negative":     failed(w.dm.ReadAt(nil, -1)),
		"write DM 2 on hollow0: inv": failed(w.dm.WriteAt(make([]byte, 4), 2)),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := w.dev.AllocDM(1<<20, 0); !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "more than the device has (65536)") {
		t.Error(err)
	}
	if _, err := newWorld(t).dev.AllocDM(8, 0); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
	if _, err := bareHollow(t).Device().AllocDM(8, 0); !errors.Is(err, verbs.ErrNoProvider) {
		t.Error(err)
	}
}

// newestWorld is a device on Linux 7.2, with a DMA handle and a region for it.
type newestWorld struct {
	*hard
	dmah    *uverbs.DMAH
	mr      *uverbs.MR
	counter *uverbs.CompCounter
	qp      *uverbs.QP
}

var (
	someCPU, somePH = uint32(3), uint8(2)
	someMemory      = verbs.TPHMemPersistent
	someHints       = uverbs.DMAHOptions{CPU: &someCPU, MemType: &someMemory, PH: &somePH}
)

func newNewest(t testing.TB) *newestWorld {
	t.Helper()
	d := fakeverbs.NewDevice(uint32(hollow0.Driver))
	w := &newestWorld{hard: hardOn(t, d)}
	w.k.Newest = true
	w.dmah = must[*uverbs.DMAH](t)(w.dev.AllocDMAH(someHints))
	w.mr = must[*uverbs.MR](t)(w.pd.RegMRFor(make([]byte, 100), w.dmah, verbs.AccessLocalWrite))
	w.counter = must[*uverbs.CompCounter](t)(w.dev.CreateCompCounter())
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq}))
	t.Cleanup(func() { closeAll(t, w.qp, w.counter, w.mr, w.dmah) })
	return w
}

func TestNewestEveryErrno(t *testing.T) {
	everyErrno(t, "hollow0", newNewest, []verb[*newestWorld]{
		{"QueryPortSpeed", []string{"QUERY_PORT_SPEED"}, "query the speed of port 1 of device on hollow0", func(w *newestWorld) error {
			return failed(w.dev.QueryPortSpeed(1))
		}},
		{"AllocDMAH", []string{"DMAH_ALLOC"}, "allocate DMAH on hollow0", func(w *newestWorld) error { return closing(w.dev.AllocDMAH(someHints)) }},
		{"RegMRFor", []string{"REG_MR_FOR"}, "create MR on hollow0", func(w *newestWorld) error {
			return closing(w.pd.RegMRFor(make([]byte, 8), w.dmah, 0))
		}},
		{"DMAH.Close", []string{"DMAH_FREE"}, "close DMAH ", func(w *newestWorld) error {
			if err := w.mr.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				return err
			}
			return w.dmah.Close()
		}},
		{"QueryCompCounterCaps", []string{"QUERY_COMP_CNTR_CAPS"}, "query the completion counters of device on hollow0", func(w *newestWorld) error {
			return failed(w.dev.QueryCompCounterCaps())
		}},
		{"CreateCompCounter", []string{"COMP_CNTR_CREATE"}, "create completion counter on hollow0", func(w *newestWorld) error {
			return closing(w.dev.CreateCompCounter())
		}},
		{"CompCounter.Set", []string{"COMP_CNTR_MODIFY"}, "modify completion counter ", func(w *newestWorld) error { return w.counter.Set(1) }},
		{"CompCounter.Read", []string{"COMP_CNTR_READ"}, "read completion counter ", func(w *newestWorld) error { return failed(w.counter.Read()) }},
		{"AttachCompCounter", []string{"QP_ATTACH_COMP_CNTR"}, "attach a completion counter to QP ", func(w *newestWorld) error {
			return w.qp.AttachCompCounter(w.counter, verbs.CompCounterSend)
		}},
		{"CompCounter.Close", []string{"COMP_CNTR_DESTROY"}, "close completion counter ", func(w *newestWorld) error { return w.counter.Close() }},
	})
}

// TestCompCounter: both numbers are set, added to and read; attached QPs keep the counter open.
func TestCompCounter(t *testing.T) {
	w := newNewest(t)
	caps, err := w.dev.QueryCompCounterCaps()
	if want := (verbs.CompCounterCaps{MaxCounters: fakeverbs.MaxCompCounters, MaxValue: fakeverbs.MaxCompCounterValue, Ops: fakeverbs.CompCounterOps}); caps != want || err != nil {
		t.Errorf("%+v, %v", caps, err)
	}
	if got := caps.Ops.String(); got != "Send|Read|RemoteRead|Write|RemoteWrite" {
		t.Error(got)
	}
	if err := errors.Join(w.counter.Set(10), w.counter.Add(5), w.counter.SetErrors(3), w.counter.AddErrors(1)); err != nil {
		t.Error(err)
	}
	if n, err := w.counter.Read(); n != 15 || err != nil {
		t.Error(n, err)
	}
	if n, err := w.counter.ReadErrors(); n != 4 || err != nil {
		t.Error(n, err)
	}
	if err := w.counter.Set(caps.MaxValue + 1); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if err := w.qp.AttachCompCounter(w.counter, verbs.CompCounterRecv); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	ops := verbs.CompCounterWrite | verbs.CompCounterRemoteWrite
	if err := w.qp.AttachCompCounter(w.counter, ops); err != nil || w.k.CompCounters()[0].Ops[w.qp.Num()] != uint32(ops) {
		t.Errorf("%v: %+v", err, w.k.CompCounters()[0])
	}
	if err := w.counter.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error("a counter with a QP:", err)
	}
	closeAll(t, w.qp, w.counter)
	if _, err := w.counter.Read(); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	if _, err := newHard(t).dev.CreateCompCounter(); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "newer than Linux 7.2") {
		t.Error(err)
	}
}

// TestCompCounterRequests compares the requests with those of libibverbs 65 (libibverbs/cmd_comp_cntr.c):
// attributes, lengths and values.
func TestCompCounterRequests(t *testing.T) {
	w := newNewest(t)
	var got []string
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if strings.Contains(call, "COMP_CNTR") {
			got = append(got, call+describe(r))
		}
	}
	w.dev.QueryCompCounterCaps()
	c := must[*uverbs.CompCounter](t)(w.dev.CreateCompCounter())
	errs := errors.Join(c.Set(7), c.AddErrors(9), failed(c.Read()), failed(c.ReadErrors()), w.qp.AttachCompCounter(c, verbs.CompCounterSend|verbs.CompCounterWrite))
	closeAll(t, w.qp, c)
	if errs != nil {
		t.Error(errs)
	}
	want := []string{
		"QUERY_COMP_CNTR_CAPS 0:4 1:8 2:4", "COMP_CNTR_CREATE 0:0", "COMP_CNTR_MODIFY 0:0 1:8=0 2:8=0 3:8=7", "COMP_CNTR_MODIFY 0:0 1:8=1 2:8=1 3:8=9",
		"COMP_CNTR_READ 0:0 1:8=0 2:8", "COMP_CNTR_READ 0:0 1:8=1 2:8", "QP_ATTACH_COMP_CNTR 0:0 1:0 2:4=17", "COMP_CNTR_DESTROY 0:0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDMAH: the kernel gets the hints that are given, and the region with its handle.
func TestDMAH(t *testing.T) {
	w := newNewest(t)
	only := must[*uverbs.DMAH](t)(w.dev.AllocDMAH(uverbs.DMAHOptions{PH: new(uint8)}))
	want := []fakeverbs.DMAH{{CPU: 3, MemType: 1, PH: 2, HasCPU: true, HasMem: true, HasPH: true}, {HasPH: true}}
	var got []fakeverbs.DMAH
	for _, h := range w.k.DMAHs() {
		got = append(got, *h)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if mr := w.k.MRs()[0]; mr.DMAH == nil || *mr.DMAH != want[0] || mr.Start != w.mr.Addr() || mr.Length != 100 || mr.Key != w.mr.LKey() || w.mr.RKey() != mr.Key {
		t.Errorf("%+v", mr)
	}
	if err := w.dmah.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error("a handle with a region:", err)
	}
	bad := uint8(4)
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"no hint":        {closing(w.dev.AllocDMAH(uverbs.DMAHOptions{})), syscall.EINVAL},
		"a PH of 4":      {closing(w.dev.AllocDMAH(uverbs.DMAHOptions{PH: &bad})), syscall.EINVAL},
		"a kind of 4":    {closing(w.dev.AllocDMAH(uverbs.DMAHOptions{PH: &somePH, MemType: (*verbs.TPHMemType)(&bad)})), verbs.ErrNotSupported},
		"no memory":      {closing(w.pd.RegMRFor(nil, only, 0)), syscall.EINVAL},
		"no handle":      {closing(w.pd.RegMRFor(make([]byte, 8), nil, 0)), syscall.EINVAL},
		"no local write": {closing(w.pd.RegMRFor(make([]byte, 8), only, verbs.AccessRemoteWrite)), syscall.EINVAL},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	closeAll(t, only)
	if _, err := w.pd.RegMRFor(make([]byte, 8), only, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Error("a closed handle:", err)
	}
}

// TestPortSpeed: a device reports the speed of its own ports only.
func TestPortSpeed(t *testing.T) {
	w := newNewest(t)
	if speed, err := w.dev.QueryPortSpeed(1); speed != fakeverbs.PortSpeed || err != nil {
		t.Error(speed, err)
	}
	if _, err := w.dev.QueryPortSpeed(2); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestNotNewest: Linux 6.12 has none of it, nor have the software drivers of 7.2. The error names
// object, method and driver.
func TestNotNewest(t *testing.T) {
	old := newHard(t)
	siw := newWorld(t)
	siw.k.Newest = true
	for _, dev := range []*uverbs.Device{old.dev, siw.dev} {
		for text, err := range map[string]error{
			"QUERY_PORT_SPEED of object DEVICE": failed(dev.QueryPortSpeed(1)),
			"DMAH_ALLOC of object DMAH":         closing(dev.AllocDMAH(someHints)),
		} {
			if name := dev.Info().Driver.String(); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
		}
	}
	w := newNewest(t)
	w.k.Newest = false
	if _, err := w.pd.RegMRFor(make([]byte, 8), w.dmah, 0); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "REG_MR of object MR") {
		t.Error(err)
	}
	w.k.Newest = true
}

// describe lists the attributes of a request by id and length, with the values of those that have one.
func describe(r *ioctl.Request) (text string) {
	for _, a := range r.Attrs() {
		text += fmt.Sprintf(" %d:%d", a.AttrId, a.Len)
		if a.Len > 0 && a.Data < 1<<20 { // no address
			text += fmt.Sprintf("=%d", a.Data)
		}
	}
	return text
}
