package uverbs_test

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	fakemlx5 "github.com/goverbs/goverbs/internal/fakeverbs/mlx5"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestNullMR: the kernel hears nothing of a region of no memory. What only the kernel's
// regions have is refused.
func TestNullMR(t *testing.T) {
	k, dev := open(t, mlx50)
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	calls := 0
	k.Refuse = func(string) error { calls++; return nil }
	mr := must[*uverbs.MR](t)(pd.AllocNullMR())
	if mr.LKey() == 0 || mr.RKey() != 0 || mr.Handle() != 0 || mr.Len() != math.MaxInt || mr.Addr() != 0 || mr.Bytes() != nil || mr.PD() != pd {
		t.Errorf("%+v", mr)
	}
	access := verbs.AccessLocalWrite
	sgl := []verbs.SGE{mr.SGE(0, 100)}
	for name, err := range map[string]error{
		"Query":    second(mr.Query()),
		"Rereg":    mr.Rereg(uverbs.ReregOptions{Access: &access}),
		"AdviseMR": pd.AdviseMR(verbs.MRPrefetch, true, sgl),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pd.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error("a domain with a region:", err)
	}
	closeAll(t, mr)
	if err := mr.Close(); !errors.Is(err, verbs.ErrClosed) {
		t.Error("closed twice:", err)
	}
	if calls > 0 {
		t.Errorf("the kernel was called %d times", calls)
	}
	closeAll(t, pd)
	if _, err := pd.AllocNullMR(); !errors.Is(err, verbs.ErrClosed) {
		t.Error("a closed domain:", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestNoNullMR: other drivers have no such key, and older kernels do not tell it.
func TestNoNullMR(t *testing.T) {
	old := fakeverbs.New(uint32(verbs.DriverMLX5))
	fakemlx5.OptionsOf(old).NoNullKey = true
	for _, dev := range []*uverbs.Device{newWorld(t).dev, openWith(t, old, mlx50)} {
		pd := must[*uverbs.PD](t)(dev.AllocPD())
		if _, err := pd.AllocNullMR(); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "create MR on "+dev.Info().Name) {
			t.Error(err)
		}
		closeAll(t, pd) // nothing is left of it
	}
}
