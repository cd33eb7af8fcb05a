package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func TestModerate(t *testing.T) {
	everyErrno(t, "hollow0", newHard, []verb[*hard]{
		{"CQ.Moderate", []string{"MODIFY_CQ"}, "moderate CQ ", func(w *hard) error { return w.cq.Moderate(10, time.Millisecond) }},
	})
	w := newHard(t)
	if err := w.cq.Moderate(20, 300*time.Microsecond); err != nil {
		t.Error(err)
	}
	if got := w.k.CQs()[0].Moderation; got != (abi.IbUverbsCqModeration{CqCount: 20, CqPeriod: 300}) {
		t.Errorf("%+v", got)
	}
	for want, err := range map[string]error{
		"a period is 65535 µs at most": w.cq.Moderate(1, time.Second),
		"65535 µs":                     w.cq.Moderate(1, -1),
		"a count of 1000 and a period of 4000 µs at mos": w.cq.Moderate(1001, 0),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := newWorld(t).cq.Moderate(1, 0); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), " on siw0") {
		t.Error(err)
	}
	if err := w.cq.Close(); err != nil {
		t.Error(err)
	}
	if err := w.cq.Moderate(1, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestHandles lists more than fit into the first request.
func TestHandles(t *testing.T) {
	everyErrno(t, "hollow0", newHard, []verb[*hard]{
		{"Handles", []string{"INFO_HANDLES"}, "list the objects of device on hollow0", func(w *hard) error { return failed(w.dev.Handles(verbs.ObjectPD)) }},
	})
	w := newHard(t)
	if got, err := w.dev.Handles(verbs.ObjectMR); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	var want []uint32
	for i := range 300 {
		pd := must[*uverbs.PD](t)(w.dev.AllocPD())
		defer pd.Close()
		want = append(want, uint32(i+2)) // behind the world's PD and CQ
	}
	want = append([]uint32{0}, want...)
	if got, err := w.dev.Handles(verbs.ObjectPD); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := w.dev.Handles(verbs.ObjectCQ); err != nil || !slices.Equal(got, []uint32{1}) {
		t.Errorf("%d, %v", got, err)
	}
}

// TestRegMRAt: work requests name the memory by another address.
func TestRegMRAt(t *testing.T) {
	w := newRoCE(t)
	b := make([]byte, 8192)
	own := must[*uverbs.MR](t)(w.pd.RegMR(b, 0))
	defer own.Close()
	const page = 4096
	iova := own.Addr()%page | 1<<40
	mr := must[*uverbs.MR](t)(w.pd.RegMRAt(b, iova, verbs.AccessLocalWrite))
	defer mr.Close()
	if mr.Addr() != iova || mr.SGE(8, 8).Addr != iova+8 || len(mr.Bytes()) != len(b) {
		t.Errorf("%#x", mr.Addr())
	}
	if got, err := mr.Query(); err != nil || got.IOVA != iova || got.Length != 8192 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := w.k.User.Write(iova+100, []byte{42}); err != nil || b[100] != 42 {
		t.Error(err, b[100])
	}
	if _, err := w.pd.RegMRAt(b, iova+8, 0); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "different places of their pages") {
		t.Error(err)
	}
	if err := mr.Close(); err != nil {
		t.Error(err)
	}
	if err := w.k.User.Check(iova, 1); err == nil {
		t.Error("the address still leads to memory")
	}
}
