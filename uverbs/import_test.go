package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var mlx50 = uverbs.DeviceInfo{Name: "mlx5_0", Driver: verbs.DriverMLX5, ABI: 1, Ports: 1}

// sharing is a device with a domain and a region, and the objects that another opening of the same
// file imports.
type sharing struct {
	k          *fakeverbs.Kernel
	maker, dev *uverbs.Device
	theirs, pd *uverbs.PD
	memory, mr *uverbs.MR
}

func (s *sharing) kernel() *fakeverbs.Kernel { return s.k }

func newSharing(t testing.TB) *sharing {
	t.Helper()
	k, maker := open(t, mlx50)
	s := &sharing{k: k, maker: maker}
	s.theirs = must[*uverbs.PD](t)(maker.AllocPD())
	s.memory = must[*uverbs.MR](t)(s.theirs.AllocMR(4096, verbs.AccessLocalWrite, nil))
	s.dev = must[*uverbs.Device](t)(uverbs.ImportOn(mlx50, k.Dup()))
	s.pd = must[*uverbs.PD](t)(s.dev.ImportPD(s.theirs.Handle()))
	s.mr = must[*uverbs.MR](t)(s.pd.ImportMR(s.memory.Handle()))
	t.Cleanup(func() { closeAll(t, s.mr, s.pd, s.dev, s.memory, s.theirs) })
	return s
}

func TestImportEveryErrno(t *testing.T) {
	everyErrno(t, "mlx5_0", newSharing, []verb[*sharing]{
		{"ImportFile", []string{"QUERY_CONTEXT", "QUERY_DEVICE", "UAR_OBJ_ALLOC", "ASYNC_EVENT_ALLOC", "EVENTS"}, "", func(s *sharing) error {
			return closing(uverbs.ImportOn(mlx50, s.k.Dup()))
		}},
		{"ImportPD", []string{"PD_QUERY"}, "import PD on mlx5_0", func(s *sharing) error { return closing(s.dev.ImportPD(s.theirs.Handle())) }},
		{"ImportMR", []string{"QUERY_MR"}, "import MR on mlx5_0", func(s *sharing) error { return closing(s.pd.ImportMR(s.memory.Handle())) }},
	})
}

// TestImportSends checks that a queue pair of the importer sends from the owner's memory.
func TestImportSends(t *testing.T) {
	s := newSharing(t)
	copy(s.memory.Bytes(), "of the maker")
	cq := must[*uverbs.CQ](t)(s.dev.CreateCQ(4, nil))
	qp := must[*uverbs.QP](t)(s.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))
	defer closeAll(t, qp, cq)
	providertest.Bring(t, qp)
	if n, err := qp.PostSend([]verbs.SendWR{{WRID: 7, SGL: []verbs.SGE{s.mr.SGE(7, 5)}, Flags: verbs.SendSignaled}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	kqp := s.k.QueuePairs()[0]
	w, ok := kqp.TakeSend()
	want := fakeverbs.SGE{Addr: s.memory.Addr() + 7, Length: 5, LKey: s.memory.LKey()}
	if !ok || w.ID != 0 && w.ID != 7 || !slices.Equal(w.SGL, []fakeverbs.SGE{want}) || !kqp.LocalOK(want, false) {
		t.Errorf("%+v, want %+v", w, want)
	}
	if v := s.k.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

// TestImportCloses checks that the importer's Close does not destroy imported objects.
func TestImportCloses(t *testing.T) {
	s := newSharing(t)
	if s.mr.Addr() != s.memory.Addr() || s.mr.Len() != 4096 || s.mr.LKey() != s.memory.LKey() || s.mr.RKey() != s.memory.RKey() || s.mr.Bytes() != nil {
		t.Errorf("%#x, %d bytes, keys %#x and %#x", s.mr.Addr(), s.mr.Len(), s.mr.LKey(), s.mr.RKey())
	}
	if s.dev.CompVectors() != s.maker.CompVectors() || s.dev.CompVectors() == 0 {
		t.Error(s.dev.CompVectors())
	}
	access := verbs.AccessLocalWrite
	if err := s.mr.Rereg(&uverbs.ReregOptions{Access: &access}); !errors.Is(err, syscall.EPERM) {
		t.Error("an imported region is changed:", err)
	}
	if err := s.pd.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error("a domain with a region:", err)
	}
	closeAll(t, s.mr, s.pd, s.dev)
	if s.k.Calls("MR_DESTROY")+s.k.Calls("PD_DESTROY") != 0 || s.k.Closed() {
		t.Error("the importer destroyed what is the maker's")
	}
	if _, err := s.memory.Query(); err != nil {
		t.Error("the maker's region, after the importer's end:", err)
	}
}

// TestImportRefused checks that each refusal says why.
func TestImportRefused(t *testing.T) {
	s := newSharing(t)
	fresh := func(info uverbs.DeviceInfo, change func(*fakeverbs.Kernel)) error {
		k := fakeverbs.New(uint32(info.Driver))
		defer func() {
			if leaks := k.Leaks(); len(leaks) > 0 {
				t.Errorf("the kernel still has %q", leaks)
			}
		}()
		if change != nil {
			change(k)
			d := must[*uverbs.Device](t)(openOn(info, k.Dup()))
			defer closeAll(t, d)
		}
		return closing(uverbs.ImportOn(info, k))
	}
	used := func(*fakeverbs.Kernel) {}
	foreign := mlx50
	foreign.ABI = 99
	for name, c := range map[string]struct {
		err  error
		want error
		text string
	}{
		"no context":       {fresh(mlx50, nil), syscall.EINVAL, "has no context"},
		"static registers": {fresh(mlx50, func(k *fakeverbs.Kernel) { fakemlx5.OptionsOf(k).StaticUARs = true }), syscall.EINVAL, "registers of its own"},
		"siw":              {fresh(siw0, used), verbs.ErrNotSupported, "does not share"},
		"another ABI":      {fresh(foreign, nil), verbs.ErrNoProvider, "ABI 99"},
		"no provider":      {fresh(uverbs.DeviceInfo{Name: "hollow0", Driver: 9999}, nil), verbs.ErrNoProvider, "provider/"},
		"no such PD":       {closing(s.dev.ImportPD(999)), syscall.ENOENT, "no such object"},
		"no such MR":       {closing(s.pd.ImportMR(999)), syscall.ENOENT, "no such object"},
		"a region as a PD": {closing(s.dev.ImportPD(s.memory.Handle())), syscall.ENOENT, "no such object"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	s.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "QUERY_MR" {
			length := uint64(1) << 63
			ioctl.Answer(r, abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &length)
		}
	}
	if _, err := s.pd.ImportMR(s.memory.Handle()); !errors.Is(err, syscall.EOVERFLOW) {
		t.Error("a region as long as no memory is:", err)
	}
	closeAll(t, s.mr, s.pd, s.dev)
	if _, err := s.dev.ImportPD(s.theirs.Handle()); !errors.Is(err, verbs.ErrClosed) {
		t.Error("a closed device:", err)
	}
	if _, err := s.pd.ImportMR(s.memory.Handle()); !errors.Is(err, verbs.ErrClosed) {
		t.Error("a closed domain:", err)
	}
}

// TestImportPDRefused checks that only a driver that shares contexts knows domains of others.
func TestImportPDRefused(t *testing.T) {
	w := newWorld(t)
	if _, err := w.dev.ImportPD(w.pd.Handle()); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "import PD on siw0") {
		t.Error(err)
	}
}

// TestQueryContext checks that siw's kernel knows the method and not the answer, and no kernel has
// one before there is a context. The fake answers as they do.
func TestQueryContext(t *testing.T) {
	for _, c := range []struct {
		info uverbs.DeviceInfo
		want error
	}{{siw0, syscall.EOPNOTSUPP}, {rxe0, syscall.EOPNOTSUPP}, {mlx50, nil}} {
		k := fakeverbs.New(uint32(c.info.Driver))
		ask := func() error {
			var vectors uint32
			r := ioctl.New(uint32(c.info.Driver), abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_CONTEXT)
			defer r.Free()
			ioctl.Out(r, abi.UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors)
			if c.info.Driver == verbs.DriverMLX5 {
				r.OutBytes(abi.MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, make([]byte, 80))
			}
			return r.Do(k)
		}
		if err := ask(); err != syscall.EINVAL {
			t.Errorf("%s without a context: %v", c.info.Name, err)
		}
		d := openWith(t, k, c.info)
		if err := ask(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", d.Info().Name, err)
		}
	}
}

// dmSharing also has device memory and its import in the other process.
type dmSharing struct {
	*sharing
	dm, same *uverbs.DM
}

func newDMSharing(t testing.TB) *dmSharing {
	t.Helper()
	s := &dmSharing{sharing: newSharing(t)}
	s.dm = must[*uverbs.DM](t)(s.maker.AllocDM(100, 0))
	s.same = must[*uverbs.DM](t)(s.dev.ImportDM(s.dm.Handle()))
	t.Cleanup(func() { closeAll(t, s.same, s.dm) })
	return s
}

func TestImportDMEveryErrno(t *testing.T) {
	everyErrno(t, "mlx5_0", newDMSharing, []verb[*dmSharing]{
		{"ImportDM", []string{"DM_QUERY", "MMAP"}, "import DM on mlx5_0", func(s *dmSharing) error { return closing(s.dev.ImportDM(s.dm.Handle())) }},
	})
}

// TestImportDM checks that two processes see the same device memory. It stays allocated when the
// importer closes it.
func TestImportDM(t *testing.T) {
	s := newDMSharing(t)
	must[int](t)(s.dm.WriteAt([]byte("both see this..."), 20))
	got := make([]byte, 16)
	if must[int](t)(s.same.ReadAt(got, 20)); string(got) != "both see this..." || s.same.Len() != 100 {
		t.Errorf("%q of %d bytes", got, s.same.Len())
	}
	if err := s.same.Close(); err != nil || len(s.k.DMs()) != 1 {
		t.Errorf("%v; the kernel has %d DMs", err, len(s.k.DMs()))
	}
	if _, err := s.dev.ImportDM(s.dm.Handle() + 1000); !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), "no such object") {
		t.Error(err)
	}
}
