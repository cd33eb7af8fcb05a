package uverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCapHint checks that an error names the number that exceeds a limit, and the limit, where the
// kernel only returns EINVAL.
func TestCapHint(t *testing.T) {
	w := newRoCE(t)
	qp := func(c verbs.QPCap) error {
		opts := w.qpOptions()
		opts.Cap = c
		return failed(w.pd.CreateQP(opts))
	}
	srq := func(o uverbs.SRQOptions) error { return failed(w.pd.CreateSRQ(&o)) }
	const huge = 1<<32 - 1
	for want, err := range map[string]error{
		"MaxSendWR 4294967295 is more than the device's limit of 1048576 (DeviceAttr.MaxQPWR)": qp(verbs.QPCap{MaxSendWR: huge}),
		"MaxRecvWR 4294967295 is more":   qp(verbs.QPCap{MaxRecvWR: huge}),
		"MaxSendSGE 33 is more":          qp(verbs.QPCap{MaxSendSGE: 33}),
		"MaxRecvSGE 33 is more":          qp(verbs.QPCap{MaxRecvSGE: 33}),
		"MaxInline 513 may be more":      qp(verbs.QPCap{MaxInline: 513}),
		"MaxWR is 0":                     srq(uverbs.SRQOptions{}),
		"MaxWR 4294967295 is more":       srq(uverbs.SRQOptions{MaxWR: huge}),
		"MaxSGE 28 is more":              srq(uverbs.SRQOptions{MaxWR: 1, MaxSGE: 28}),
		"entries 40000 is more":          failed(w.dev.CreateCQ(40000, nil)),
		"not below Device.CompVectors (": failed(w.dev.CreateCQ(1, &uverbs.CQOptions{CompVector: fakeverbs.CompVectors})),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	w.k.Fail("QP_CREATE", 0, syscall.EINVAL)
	if err := qp(verbs.QPCap{MaxSendWR: 1}); !strings.HasSuffix(err.Error(), "invalid argument") {
		t.Errorf("nothing was too much: %v", err)
	}
}

// TestCreateQPType checks that rxe's kernel is not asked for QP types that it does not have.
func TestCreateQPType(t *testing.T) {
	w := newRoCE(t)
	opts := w.qpOptions()
	opts.Type = verbs.QPTypeDriver
	if _, err := w.pd.CreateQP(opts); !errors.Is(err, verbs.ErrNotSupported) || w.k.Calls("QP_CREATE") != 2 {
		t.Errorf("%v after %d calls", err, w.k.Calls("QP_CREATE"))
	}
}
