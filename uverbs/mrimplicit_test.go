package uverbs_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestImplicitMR: the kernel gets address 0 and the greatest length, and pins nothing.
func TestImplicitMR(t *testing.T) {
	k, dev := open(t, mlx50)
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	pinned := int64(0)
	k.Pin = func(bytes int64) error { pinned += bytes; return nil }
	mr := must[*uverbs.MR](t)(pd.RegImplicitMR(verbs.AccessLocalWrite))
	const want = abi.IB_UVERBS_ACCESS_LOCAL_WRITE | abi.IB_UVERBS_ACCESS_ON_DEMAND
	if r := k.MRs()[0]; r.Start != 0 || r.Length != math.MaxUint64 || r.Access != want || pinned != 0 {
		t.Errorf("%+v, %d bytes pinned", r, pinned)
	}
	if mr.Addr() != 0 || mr.Len() != math.MaxInt || mr.Bytes() != nil || mr.SGE(1<<40, 5) != (verbs.SGE{Addr: 1 << 40, Length: 5, LKey: mr.LKey()}) {
		t.Errorf("%+v", mr.SGE(1<<40, 5))
	}
	k.Fail("REG_MR", 0, syscall.ENOMEM)
	if _, err := pd.RegImplicitMR(0); !errors.Is(err, syscall.ENOMEM) {
		t.Error(err)
	}
	if _, err := pd.RegImplicitMR(verbs.AccessRemoteWrite); !errors.Is(err, syscall.EINVAL) || errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "AccessLocalWrite") {
		t.Error("remote rights alone:", err)
	}
	closeAll(t, mr, pd)
}

// TestNoImplicitMR: a device without on-demand paging, and one that has it of ranges alone.
func TestNoImplicitMR(t *testing.T) {
	for name, onDemand := range map[string]bool{"siw": false, "rxe of Linux 7.2": true} {
		info := siw0
		if onDemand {
			info = rxe0
		}
		w := worldOn(t, info)
		w.k.OnDemand = onDemand
		if _, err := w.pd.RegImplicitMR(0); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPrefetch asks for a large region piece by piece.
func TestPrefetch(t *testing.T) {
	k, dev := open(t, mlx50)
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	const size = 150 << 20
	mr := must[*uverbs.MR](t)(pd.AllocMR(size, verbs.AccessLocalWrite|verbs.AccessOnDemand, nil))
	defer closeAll(t, mr, pd)
	var done []int
	told := func(n int) { done = append(done, n) }
	if err := mr.Prefetch(t.Context(), verbs.MRPrefetchWrite, 4096, size-4096, told); err != nil {
		t.Fatal(err)
	}
	if want := []int{64 << 20, 128 << 20, size - 4096}; !slices.Equal(done, want) || k.Calls("ADVISE_MR") != 3 {
		t.Errorf("%d, want %d", done, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := mr.Prefetch(ctx, verbs.MRPrefetch, 0, size, func(int) { cancel() })
	if !errors.Is(err, context.Canceled) || k.Calls("ADVISE_MR") != 4 {
		t.Error(err, k.Calls("ADVISE_MR"))
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"no bytes":        {mr.Prefetch(t.Context(), verbs.MRPrefetch, 0, 0, nil), nil},
		"behind the end":  {mr.Prefetch(t.Context(), verbs.MRPrefetch, size, 1, nil), syscall.EFAULT},
		"negative":        {mr.Prefetch(t.Context(), verbs.MRPrefetch, -1, 1, nil), syscall.EINVAL},
		"negative length": {mr.Prefetch(t.Context(), verbs.MRPrefetch, 0, -1, nil), syscall.EINVAL},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}
