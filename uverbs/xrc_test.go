package uverbs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// xrcWorld has one of each object of XRC.
type xrcWorld struct {
	*hard
	xrcd   *uverbs.XRCD
	srq    *uverbs.SRQ
	target *uverbs.QP
	opened *uverbs.QP
	sender *uverbs.QP
}

func newXRC(t testing.TB) *xrcWorld {
	t.Helper()
	w := &xrcWorld{hard: newHard(t)}
	w.xrcd = must[*uverbs.XRCD](t)(w.dev.OpenXRCD(nil, 0))
	w.srq = must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1, XRCD: w.xrcd, CQ: w.cq}))
	w.target = must[*uverbs.QP](t)(w.xrcd.CreateQP())
	w.opened = must[*uverbs.QP](t)(w.xrcd.OpenQP(w.target.QPN()))
	w.sender = must[*uverbs.QP](t)(w.pd.CreateQP(w.senderOptions()))
	t.Cleanup(func() { closeAll(t, w.sender, w.opened, w.target, w.srq, w.xrcd) })
	return w
}

func (w *xrcWorld) senderOptions() *uverbs.QPOptions {
	return &uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxSendSGE: 1}}
}

func TestXRCEveryErrno(t *testing.T) {
	everyErrno(t, "hollow0", newXRC, []verb[*xrcWorld]{
		{"OpenXRCD", []string{"OPEN_XRCD"}, "open XRCD on hollow0", func(w *xrcWorld) error { return closing(w.dev.OpenXRCD(nil, 0)) }},
		{"XRCD.Close", []string{"XRCD_DESTROY"}, "close XRCD ", func(w *xrcWorld) error {
			for _, c := range []closer{w.opened, w.target, w.srq} {
				if err := c.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
					return err
				}
			}
			return w.xrcd.Close()
		}},
		{"XRCD.CreateQP", []string{"QP_CREATE"}, "create QP on hollow0", func(w *xrcWorld) error { return closing(w.xrcd.CreateQP()) }},
		{"XRCD.OpenQP", []string{"OPEN_QP"}, "open QP on hollow0", func(w *xrcWorld) error { return closing(w.xrcd.OpenQP(w.target.QPN())) }},
		{"QP.Close of a target", []string{"QP_DESTROY"}, "close QP ", func(w *xrcWorld) error { return w.target.Close() }},
		{"QP.Modify of a target", []string{"MODIFY_QP"}, "modify QP ", func(w *xrcWorld) error {
			return w.target.Modify(&verbs.QPAttr{State: verbs.QPStateReset}, verbs.QPAttrState)
		}},
		{"CreateSRQ of a domain", []string{"SRQ_CREATE"}, "create SRQ on hollow0", func(w *xrcWorld) error {
			return closing(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1, XRCD: w.xrcd, CQ: w.cq}))
		}},
		{"CreateQP of an initiator", []string{"QP_CREATE"}, "create QP on hollow0", func(w *xrcWorld) error { return closing(w.pd.CreateQP(w.senderOptions())) }},
	})
}

// TestXRCObjects checks the parents and users of each object.
func TestXRCObjects(t *testing.T) {
	w := newXRC(t)
	ksrq := w.k.SRQs()[0]
	if w.srq.Num() == 0 || w.srq.Num() != ksrq.Num || ksrq.CQ != w.k.CQs()[0] {
		t.Errorf("SRQ %d, the kernel has %+v", w.srq.Num(), ksrq)
	}
	if w.target.PD() != nil || w.target.SendCQ() != nil || w.target.RecvCQ() != nil || w.sender.RecvCQ() != nil || w.opened.QPN() != w.target.QPN() {
		t.Error("a target QP has queues, or an initiator receives")
	}
	soft := newWorld(t)
	for what, err := range map[string]error{
		"posting to a target":  failed(w.target.PostSend(make([]verbs.SendWR, 1))),
		"receives of a target": failed(w.opened.PostRecv(make([]verbs.RecvWR, 1))),
		"a domain of siw":      failed(soft.dev.OpenXRCD(nil, 0)),
		"an initiator of siw":  failed(soft.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: soft.cq})),
	} {
		if !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := w.xrcd.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "SRQ") || !strings.Contains(err.Error(), "QP") {
		t.Error(err)
	}
	if err := w.cq.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "SRQ") {
		t.Error(err)
	}
}

// TestXRCRefused checks that nonsense is refused before the kernel sees it, or with a remedy.
func TestXRCRefused(t *testing.T) {
	w := newXRC(t)
	file := must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "domain")))
	defer file.Close()
	receiving, withSRQ := w.senderOptions(), w.senderOptions()
	receiving.RecvCQ, withSRQ.SRQ = w.cq, w.srq
	ordinary := func(o uverbs.QPOptions) error {
		o.SendCQ, o.RecvCQ = w.cq, w.cq
		return failed(w.pd.CreateQP(&o))
	}
	for want, err := range map[string]error{
		"QPOptions must name SendCQ":    failed(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator})),
		"XRC_INI does not receive":      failed(w.pd.CreateQP(receiving)),
		"leave RecvCQ, SRQ":             failed(w.pd.CreateQP(withSRQ)),
		"belongs to an XRC domain":      ordinary(uverbs.QPOptions{Type: verbs.QPTypeXRCTarget}),
		"name both XRCD and CQ":         failed(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, XRCD: w.xrcd})),
		"or neither":                    failed(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, CQ: w.cq})),
		"no target QP with that number": failed(w.xrcd.OpenQP(12345)),
		"flags other than os.O_CREATE":  failed(w.dev.OpenXRCD(file, os.O_TRUNC)),
		"invalid argument":              ordinary(uverbs.QPOptions{SRQ: w.srq}),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	file.Close()
	if _, err := w.dev.OpenXRCD(file, os.O_CREATE); err == nil || !strings.Contains(err.Error(), "closed file") {
		t.Error(err)
	}
}

// TestXRCShared checks that processes that open a domain with the same file share the domain and its
// target QPs.
func TestXRCShared(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the fake kernel knows files of Linux")
	}
	d := fakeverbs.NewDevice(uint32(hollow0.Driver))
	one, two := hardOn(t, d), hardOn(t, d)
	path := filepath.Join(t.TempDir(), "domain")
	open := func(w *hard, flag int) (*uverbs.XRCD, error) {
		f := must[*os.File](t)(os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600))
		defer f.Close()
		return w.dev.OpenXRCD(f, flag)
	}
	if _, err := open(one, 0); !errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), "pass os.O_CREATE") {
		t.Error(err)
	}
	mine := must[*uverbs.XRCD](t)(open(one, os.O_CREATE|os.O_EXCL))
	if _, err := open(two, os.O_CREATE|os.O_EXCL); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "has a domain already") {
		t.Error(err)
	}
	theirs := must[*uverbs.XRCD](t)(open(two, os.O_CREATE))
	if d.Domains() != 1 {
		t.Errorf("%d domains", d.Domains())
	}
	qp := must[*uverbs.QP](t)(mine.CreateQP())
	other := must[*uverbs.QP](t)(theirs.OpenQP(qp.QPN()))
	connectTarget(t, qp, other)
	one.k.QueuePairs()[0].Raise(abi.IB_EVENT_COMM_EST)
	for w, want := range map[*hard]*uverbs.QP{one: qp, two: other} {
		if e, err := w.dev.AsyncEvent(context.Background()); err != nil || e.QP != want || e.Type != verbs.EventCommEst {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if err := errors.Join(qp.Close(), mine.Close()); err != nil {
		t.Error(err)
	}
	if a, err := other.Query(); err != nil || a.State != verbs.QPStateRTS {
		t.Errorf("%+v, %v: the QP went with its maker", a, err)
	}
	if err := errors.Join(other.Close(), theirs.Close()); err != nil {
		t.Error(err)
	}
	if d.Domains() != 0 {
		t.Errorf("%d domains are left", d.Domains())
	}
}

// connectTarget moves a target QP through one handle and queries it through another.
func connectTarget(t *testing.T, qp, other *uverbs.QP) {
	t.Helper()
	attr := &verbs.QPAttr{DestQPN: 7, AH: verbs.AHAttr{DGID: fakeverbs.GID, Global: true, Port: 1}, Access: verbs.AccessRemoteWrite, RQPSN: 8, PathMTU: verbs.MTU1024}
	if err := qp.Init(attr); err != nil {
		t.Fatal(err)
	}
	if err := other.Connect(attr); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*uverbs.QP{qp, other} {
		if a, err := q.Query(); err != nil || a.State != verbs.QPStateRTS || a.DestQPN != 7 {
			t.Errorf("%+v, %v", a, err)
		}
	}
}

// TestXRCInitiator connects an initiator with the attributes of its type; its CQ reports a failure.
func TestXRCInitiator(t *testing.T) {
	w := newXRC(t)
	attr := &verbs.QPAttr{DestQPN: 7, AH: verbs.AHAttr{DGID: fakeverbs.GID, Global: true, Port: 1}, PathMTU: verbs.MTU1024}
	if err := errors.Join(w.sender.Init(attr), w.sender.Connect(attr)); err != nil {
		t.Fatal(err)
	}
	if n, err := w.sender.PostSend([]verbs.SendWR{{SRQN: w.srq.Num()}}); n != 1 || err != nil {
		t.Error(n, err)
	}
	for _, state := range []verbs.QPState{verbs.QPStateErr, verbs.QPStateReset} {
		if err := w.sender.Modify(&verbs.QPAttr{State: state}, verbs.QPAttrState); err != nil {
			t.Error(err)
		}
	}
	err := w.sender.Modify(&verbs.QPAttr{State: verbs.QPStateInit}, verbs.QPAttrState)
	if err == nil || !strings.Contains(err.Error(), "of a XRC_INI QP also needs") {
		t.Error(err)
	}
}
