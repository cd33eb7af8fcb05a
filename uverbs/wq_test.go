package uverbs_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/rss"
)

// wqWorld has two WQs, a table of both, and a QP on the table.
type wqWorld struct {
	*hard
	wqs   [2]*uverbs.WQ
	table *uverbs.RWQIndTable
	qp    *uverbs.QP
}

var toeplitz = rss.Hash{Function: rss.Toeplitz, Key: bytes.Repeat([]byte{7}, 40), Fields: rss.SrcIPv4 | rss.DstIPv4}

func newWQs(t testing.TB) *wqWorld {
	t.Helper()
	w := &wqWorld{hard: newHard(t)}
	for i := range w.wqs {
		w.wqs[i] = must[*uverbs.WQ](t)(w.pd.CreateWQ(&uverbs.WQOptions{MaxWR: 4, MaxSGE: 2, CQ: w.cq, Flags: rss.WQScatterFCS}))
	}
	w.table = must[*uverbs.RWQIndTable](t)(w.dev.CreateRWQIndTable([]*uverbs.WQ{w.wqs[0], w.wqs[1], w.wqs[1], w.wqs[0]}))
	w.qp = must[*uverbs.QP](t)(w.pd.CreateRSSQP(&uverbs.RSSOptions{Table: w.table, Hash: toeplitz}))
	t.Cleanup(func() { closeAll(t, w.qp, w.table, w.wqs[0], w.wqs[1]) })
	return w
}

func TestWQEveryErrno(t *testing.T) {
	everyErrno(t, "hollow0", newWQs, []verb[*wqWorld]{
		{"CreateWQ", []string{"WQ_CREATE"}, "create WQ on hollow0", func(w *wqWorld) error {
			return closing(w.pd.CreateWQ(&uverbs.WQOptions{MaxWR: 1, MaxSGE: 1, CQ: w.cq}))
		}},
		{"WQ.Modify", []string{"MODIFY_WQ"}, "modify WQ ", func(w *wqWorld) error {
			return w.wqs[0].Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState)
		}},
		{"CreateRWQIndTable", []string{"CREATE_RWQ_IND_TBL"}, "create WQ table on hollow0", func(w *wqWorld) error {
			return closing(w.dev.CreateRWQIndTable(w.wqs[:1]))
		}},
		{"CreateRSSQP", []string{"QP_CREATE"}, "create QP on hollow0", func(w *wqWorld) error {
			return closing(w.pd.CreateRSSQP(&uverbs.RSSOptions{Type: verbs.QPTypeUD, Table: w.table, Flags: verbs.QPBlockMulticastLoopback}))
		}},
		{"QP.Close", []string{"QP_DESTROY"}, "close QP ", func(w *wqWorld) error { return w.qp.Close() }},
		{"RWQIndTable.Close", []string{"RWQ_IND_TBL_DESTROY"}, "close WQ table ", func(w *wqWorld) error {
			if err := w.qp.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				return err
			}
			return w.table.Close()
		}},
		{"WQ.Close", []string{"WQ_DESTROY"}, "close WQ ", func(w *wqWorld) error {
			for _, c := range []closer{w.qp, w.table} {
				if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
					return err
				}
			}
			return w.wqs[0].Close()
		}},
	})
}

// TestWQ checks the kernel's requests and responses.
func TestWQ(t *testing.T) {
	w := newWQs(t)
	kwq := w.k.WQs()[1]
	if q := w.wqs[1]; q.Num() != kwq.Num || q.MaxWR() != 4 || q.MaxSGE() != 2 || kwq.Flags != uint32(rss.WQScatterFCS) || kwq.CQ != w.k.CQs()[0] {
		t.Errorf("%d, the kernel has %+v", q.Num(), kwq)
	}
	if q := w.k.QueuePairs()[0]; len(q.Table.WQs) != 4 || q.Table.WQs[1] != kwq || q.Table.WQs[3] != w.k.WQs()[0] || q.Type != uint64(verbs.QPTypeRawPacket) || w.table.Num() == 0 {
		t.Errorf("%+v", q)
	}
	q := w.wqs[1]
	attr := &rss.WQAttr{State: rss.WQStateReady, CurState: rss.WQStateReset, Flags: rss.WQCVLANStripping, Mask: rss.WQCVLANStripping}
	if err := q.Modify(attr, rss.WQAttrState|rss.WQAttrCurState|rss.WQAttrFlags); err != nil {
		t.Error(err)
	}
	if kwq.State != uint32(rss.WQStateReady) || kwq.Flags != uint32(rss.WQScatterFCS|rss.WQCVLANStripping) {
		t.Errorf("%+v", kwq)
	}
	if n, err := q.PostRecv(make([]verbs.RecvWR, 3)); n != 3 || err != nil {
		t.Error(n, err)
	}
	kwq.Raise(abi.IB_EVENT_WQ_FATAL)
	if e, err := w.dev.AsyncEvent(context.Background()); err != nil || e.WQ != q || e.Type != verbs.EventWQFatal {
		t.Errorf("%+v, %v", e, err)
	}
	for _, c := range []closer{w.wqs[0], w.table, w.cq, w.pd} {
		if err := c.Close(); !errors.Is(err, verbs.ErrInUse) {
			t.Error(err)
		}
	}
	closeAll(t, w.qp, w.table, q)
	if _, err := q.PostRecv(nil); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	if err := q.Modify(attr, rss.WQAttrState); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestRSSHash checks that the provider gets the hash and its bytes get to the kernel.
func TestRSSHash(t *testing.T) {
	w := newWQs(t)
	var got []byte
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "QP_CREATE" {
			b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
			got = bytes.Clone(b)
		}
	}
	closeAll(t, must[*uverbs.QP](t)(w.pd.CreateRSSQP(&uverbs.RSSOptions{Table: w.table, Hash: toeplitz})))
	if want := append([]byte{1, 3}, toeplitz.Key...); !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
}

// TestWQRefused checks that nonsense is refused before the kernel sees it, or with a remedy.
func TestWQRefused(t *testing.T) {
	w := newWQs(t)
	q := w.wqs[0]
	if err := q.Modify(&rss.WQAttr{State: rss.WQStateErr}, rss.WQAttrState); err != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"name a CQ":                     failed(w.pd.CreateWQ(nil)),
		"a power of two":                failed(w.dev.CreateRWQIndTable([]*uverbs.WQ{q, q, q})),
		"be a power of two":             failed(w.dev.CreateRWQIndTable(nil)),
		"a WQ is nil":                   failed(w.dev.CreateRWQIndTable([]*uverbs.WQ{nil})),
		"must name a table":             failed(w.pd.CreateRSSQP(nil)),
		"no attributes":                 q.Modify(nil, rss.WQAttrState),
		"from ERR to RDY through RESET": q.Modify(&rss.WQAttr{State: rss.WQStateReady}, rss.WQAttrState),
		"modify WQ":                     q.Modify(&rss.WQAttr{}, 0),
		"create WQ on hollow0: inva":    failed(w.pd.CreateWQ(&uverbs.WQOptions{CQ: w.cq})),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	soft, bare := newWorld(t), bareHollow(t)
	for what, err := range map[string]error{
		"a QP without queues": failed(w.qp.PostRecv(make([]verbs.RecvWR, 1))),
		"a WQ of siw":         failed(soft.pd.CreateWQ(&uverbs.WQOptions{CQ: soft.cq})),
		"another type":        failed(w.pd.CreateRSSQP(&uverbs.RSSOptions{Type: verbs.QPTypeRC, Table: w.table})),
	} {
		if !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := bare.CreateWQ(&uverbs.WQOptions{CQ: w.cq}); !errors.Is(err, verbs.ErrNoProvider) {
		t.Error(err)
	}
	if _, err := bare.CreateRSSQP(nil); !errors.Is(err, verbs.ErrNoProvider) {
		t.Error(err)
	}
}

// bareHollow returns a PD of a device without a provider.
func bareHollow(t *testing.T) *uverbs.PD {
	t.Helper()
	_, dev := open(t, uverbs.DeviceInfo{Name: "qib0", Driver: verbs.DriverQIB})
	pd := must[*uverbs.PD](t)(dev.AllocPD())
	t.Cleanup(func() { closeAll(t, pd) })
	return pd
}
