package uverbs_test

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestReregMoves moves a region: the new domain can't be closed, the old one can.
func TestReregMoves(t *testing.T) {
	w := newRoCE(t)
	access := verbs.AccessLocalWrite | verbs.AccessRemoteRead
	if err := w.mr.Rereg(uverbs.ReregOptions{PD: w.other, Access: &access}); err != nil {
		t.Fatal(err)
	}
	if k := w.k.MRs()[0]; k.Access != uint32(access) || k.PD != 5 || w.mr.PD() != w.other {
		t.Errorf("the kernel has %+v", k)
	}
	if err := w.other.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "close MR 1 first") {
		t.Error(err)
	}
	closeAll(t, w.ud, w.ah, w.mw, w.qp, w.srq)
	if err := w.pd.Close(); err != nil {
		t.Errorf("the old domain: %v", err)
	}
	if err := w.mr.Close(); err != nil {
		t.Error(err)
	}
	if err := w.other.Close(); err != nil {
		t.Error(err)
	}
}

// TestReregStays has the kernel refuse a move, and moves to where the region is.
func TestReregStays(t *testing.T) {
	foreign := newRoCE(t).pd
	w := newRoCE(t)
	w.k.Fail("REREG_MR", 0, syscall.ENOMEM)
	if err := w.mr.Rereg(uverbs.ReregOptions{PD: w.other}); !errors.Is(err, syscall.ENOMEM) || w.mr.PD() != w.pd {
		t.Error(err)
	}
	if err := w.other.Close(); err != nil {
		t.Errorf("the domain that it did not move to: %v", err)
	}
	if err := w.mr.Rereg(uverbs.ReregOptions{PD: w.pd}); err != nil {
		t.Error(err)
	}
	if err := w.mr.Rereg(uverbs.ReregOptions{PD: foreign}); !errors.Is(err, verbs.ErrClosed) || !strings.Contains(err.Error(), "another device") {
		t.Error(err)
	}
	closeAll(t, w.ud, w.ah, w.mw, w.qp, w.srq)
	if err := w.pd.Close(); !errors.Is(err, verbs.ErrInUse) {
		t.Error(err)
	}
}

// TestReregKeys has the kernel give the region other keys, as NICs do.
func TestReregKeys(t *testing.T) {
	w := newRoCE(t)
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "REREG_MR" {
			ioctl.Answer(r, abi.UVERBS_ATTR_CORE_OUT, &abi.IbUverbsReregMrResp{Lkey: 12, Rkey: 13})
		}
	}
	access := verbs.AccessLocalWrite
	if err := w.mr.Rereg(uverbs.ReregOptions{Access: &access}); err != nil {
		t.Fatal(err)
	}
	if w.mr.LKey() != 12 || w.mr.RKey() != 13 || w.mr.SGE(0, 1).LKey != 12 {
		t.Errorf("keys %d and %d", w.mr.LKey(), w.mr.RKey())
	}
}

// TestReregTogether moves a region to and fro from two sides. It ends up in one
// domain, and in no other.
func TestReregTogether(t *testing.T) {
	w := newRoCE(t)
	closeAll(t, w.ud, w.ah, w.mw, w.qp, w.srq)
	var wg sync.WaitGroup
	for _, pd := range []*uverbs.PD{w.pd, w.other} {
		wg.Go(func() {
			for range 1000 {
				if err := w.mr.Rereg(uverbs.ReregOptions{PD: pd}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	free := 0
	for _, pd := range []*uverbs.PD{w.pd, w.other} {
		if err := pd.Close(); err == nil {
			free++
		} else if !errors.Is(err, verbs.ErrInUse) || pd != w.mr.PD() {
			t.Error(err)
		}
	}
	if free != 1 {
		t.Errorf("%d domains are free", free)
	}
}
