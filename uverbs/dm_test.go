package uverbs_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
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
	reg := func(dm *uverbs.DM, offset, length int) error { return failed(w.pd.RegDM(dm, offset, length, 0)) }
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
	dmah *uverbs.DMAH
	mr   *uverbs.MR
}

var (
	someCPU, somePH = uint32(3), uint8(2)
	someMemory      = verbs.TPHMemPersistent
	someHints       = &uverbs.DMAHOptions{CPU: &someCPU, MemType: &someMemory, PH: &somePH}
)

func newNewest(t testing.TB) *newestWorld {
	t.Helper()
	d := fakeverbs.NewDevice(uint32(hollow0.Driver))
	w := &newestWorld{hard: hardOn(t, d)}
	w.k.Newest = true
	w.dmah = must[*uverbs.DMAH](t)(w.dev.AllocDMAH(someHints))
	w.mr = must[*uverbs.MR](t)(w.pd.RegMRFor(make([]byte, 100), w.dmah, verbs.AccessLocalWrite))
	t.Cleanup(func() { closeAll(t, w.mr, w.dmah) })
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
	})
}

// TestDMAH checks that the kernel gets the hints that are given, and the region with its handle.
func TestDMAH(t *testing.T) {
	w := newNewest(t)
	only := must[*uverbs.DMAH](t)(w.dev.AllocDMAH(&uverbs.DMAHOptions{PH: new(uint8)}))
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
		"no hint":        {closing(w.dev.AllocDMAH(&uverbs.DMAHOptions{})), syscall.EINVAL},
		"a PH of 4":      {closing(w.dev.AllocDMAH(&uverbs.DMAHOptions{PH: &bad})), syscall.EINVAL},
		"a kind of 4":    {closing(w.dev.AllocDMAH(&uverbs.DMAHOptions{PH: &somePH, MemType: (*verbs.TPHMemType)(&bad)})), verbs.ErrNotSupported},
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

// TestPortSpeed checks that a device reports the speed of its own ports only.
func TestPortSpeed(t *testing.T) {
	w := newNewest(t)
	if speed, err := w.dev.QueryPortSpeed(1); speed != fakeverbs.PortSpeed || err != nil {
		t.Error(speed, err)
	}
	if _, err := w.dev.QueryPortSpeed(2); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

// TestNotNewest checks that the calls fail on Linux 6.12, and with the software drivers of 7.2. The
// error names object, method and driver.
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
