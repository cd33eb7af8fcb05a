package uverbs_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

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
		"no power of two":            failed(w.dev.AllocDM(8, 3)),
		"no device memory is named":  reg(nil, 0, 1),
		"0 bytes from 0 on":          reg(w.dm, 0, 0),
		"2 bytes from 4095 on":       reg(w.dm, 4095, 2),
		"1 bytes from 4097 on":       reg(w.dm, 4097, 1),
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
