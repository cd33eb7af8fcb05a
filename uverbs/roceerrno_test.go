package uverbs_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// roceVerbs are the calls of a device with RoCE, as far as they are not carried
// out as on others.
var roceVerbs = []verb[*roce]{
	{"CreateAH", []string{"CREATE_AH"}, "create AH on rxe0", func(w *roce) error { return closing(w.pd.CreateAH(address)) }},
	{"AH.Close", []string{"AH_DESTROY"}, "close AH ", func(w *roce) error { return w.ah.Close() }},
	{"AllocMW", []string{"ALLOC_MW"}, "create MW on rxe0", func(w *roce) error { return closing(w.pd.AllocMW(verbs.MWType2)) }},
	{"MW.Close", []string{"MW_DESTROY"}, "close MW ", func(w *roce) error { return w.mw.Close() }},
	{"CreateCQ", []string{"CQ_CREATE", "MMAP"}, "create CQ on rxe0", func(w *roce) error { return closing(w.dev.CreateCQ(1, nil)) }},
	{"CreateSRQ", []string{"SRQ_CREATE", "MMAP"}, "create SRQ on rxe0", func(w *roce) error {
		return closing(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 1, MaxSGE: 1}))
	}},
	{"CreateQP", []string{"QP_CREATE", "MMAP", "MMAP+1"}, "create QP on rxe0", func(w *roce) error {
		return closing(w.pd.CreateQP(w.qpOptions()))
	}},
	{"CQ.Resize", []string{"RESIZE_CQ"}, "resize CQ ", func(w *roce) error { return w.cq.Resize(100) }},
	{"CQ.Arm", []string{"REQ_NOTIFY_CQ"}, "arm CQ ", func(w *roce) error { return w.cq.Arm(false) }},
	{"CQ.Arm solicited", []string{"REQ_NOTIFY_CQ"}, "arm CQ ", func(w *roce) error { return w.cq.Arm(true) }},
	{"SRQ.Resize", []string{"MODIFY_SRQ"}, "resize SRQ ", func(w *roce) error { return w.srq.Resize(100) }},
	{"SRQ.SetLimit", []string{"MODIFY_SRQ"}, "set the limit of SRQ ", func(w *roce) error { return w.srq.SetLimit(1) }},
	{"AttachMcast", []string{"ATTACH_MCAST"}, "attach to multicast group ff0e::1 QP 18 on rxe0", func(w *roce) error {
		if err := w.ud.AttachMcast(group, 0); err != nil {
			return err
		}
		return w.ud.DetachMcast(group, 0)
	}},
	{"DetachMcast", []string{"DETACH_MCAST"}, "detach from multicast group ff0e::1 QP 18 on rxe0", func(w *roce) error {
		return errors.Join(w.ud.AttachMcast(group, 0), w.ud.DetachMcast(group, 0))
	}},
	{"MR.Rereg access", []string{"REREG_MR"}, "change MR ", func(w *roce) error {
		access := verbs.AccessLocalWrite
		return w.mr.Rereg(uverbs.ReregOptions{Access: &access})
	}},
	{"MR.Rereg PD", []string{"REREG_MR"}, "change MR ", func(w *roce) error { return w.mr.Rereg(uverbs.ReregOptions{PD: w.other}) }},
	{"AHFromWC", []string{"QUERY_GID_TABLE"}, "query the GID table of device on rxe0", answering},
	{"AHFromWC's AH", []string{"CREATE_AH"}, "create AH on rxe0", answering},
	{"ChooseGID", []string{"QUERY_PORT"}, "query port 1 of device on rxe0", choosing},
	{"ChooseGID's table", []string{"QUERY_GID_TABLE"}, "query the GID table of device on rxe0", choosing},
	{"AdviseMR", []string{"ADVISE_MR"}, "advise on memory of PD 0 on rxe0", func(w *roce) error {
		w.k.OnDemand = true
		mr, err := w.pd.AllocMR(1, verbs.AccessOnDemand, nil)
		if err != nil {
			return err
		}
		return errors.Join(w.pd.AdviseMR(verbs.MRPrefetch, false, []verbs.SGE{mr.SGE(0, 1)}), mr.Close())
	}},
	{"QP.Connect", []string{"MODIFY_QP", "MODIFY_QP+1", "MODIFY_QP+2"}, "modify QP 19 on rxe0", connecting},
	{"QP.Connect's port", []string{"QUERY_PORT"}, "query port 1 of device on rxe0", connecting},
}

// answering makes an address handle to answer a message with.
func answering(w *roce) error {
	return closing(w.pd.AHFromWC(1, &verbs.WC{Flags: verbs.WCGRH}, ipv4GRH(0, "10.0.0.9", "10.9.9.9")))
}

// connecting takes a new QP to RTS.
func connecting(w *roce) error {
	qp, err := w.pd.CreateQP(w.qpOptions())
	if err != nil {
		return err
	}
	if err = qp.Init(nil); err == nil {
		err = qp.Connect(&verbs.QPAttr{AH: *address})
	}
	return errors.Join(err, qp.Close())
}

func choosing(w *roce) error { return failed(w.dev.ChooseGID(1, nil)) }

func TestRoCEEveryErrno(t *testing.T) { everyErrno(t, "rxe0", newRoCE, roceVerbs) }

// TestConnectedEveryErrno does it with what needs a QP in RTS.
func TestConnectedEveryErrno(t *testing.T) {
	everyErrno(t, "rxe0", connected, []verb[*roce]{
		{"PostSend", []string{"POST_SEND"}, "post a send to QP 17 on rxe0", func(w *roce) error { return failed(w.qp.PostSend(send)) }},
		{"PostSend UD", []string{"POST_SEND"}, "post a send to QP 18 on rxe0", func(w *roce) error { return failed(w.ud.PostSend(w.datagram())) }},
	})
}

// TestLacking asks siw for what only RoCE has. Nothing changes.
func TestLacking(t *testing.T) {
	w := newWorld(t)
	access := verbs.AccessLocalWrite
	alive, calls := w.k.Alive(), w.k.Calls("MODIFY_SRQ")
	for name, err := range map[string]error{
		"CreateAH": failed(w.pd.CreateAH(address)), "AllocMW": failed(w.pd.AllocMW(verbs.MWType1)), "CQ.Resize": w.cq.Resize(100),
		"SRQ.Resize": w.srq.Resize(100), "AttachMcast": w.qp.AttachMcast(group, 0), "DetachMcast": w.qp.DetachMcast(group, 0),
		"Rereg": w.mr.Rereg(uverbs.ReregOptions{Access: &access}),
	} {
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), " on siw0 (driver siw): ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !slices.Equal(w.k.Alive(), alive) || w.k.Calls("MODIFY_SRQ") != calls || w.cq.Cap() != 16 || w.srq.MaxWR() != 4 {
		t.Errorf("%q, before %q; CQ of %d, SRQ of %d", w.k.Alive(), alive, w.cq.Cap(), w.srq.MaxWR())
	}
}

// TestRoCEHints has the kernel refuse what is wrong with a request.
func TestRoCEHints(t *testing.T) {
	w := newRoCE(t)
	with := func(change func(*verbs.AHAttr)) *verbs.AHAttr {
		a := *address
		change(&a)
		return &a
	}
	writable := verbs.AccessRemoteWrite
	for _, c := range []struct {
		err   error
		errno syscall.Errno
		hint  string
	}{
		{failed(w.pd.CreateAH(nil)), syscall.EINVAL, "no address"},
		{failed(w.pd.CreateAH(with(func(a *verbs.AHAttr) { a.Global = false }))), syscall.EINVAL, "RoCE needs a Global address"},
		{failed(w.pd.CreateAH(with(func(a *verbs.AHAttr) { a.Port = 2 }))), syscall.EINVAL, "no such port"},
		{failed(w.pd.CreateAH(with(func(a *verbs.AHAttr) { a.SGIDIndex = 5 }))), syscall.ENODATA, "SGIDIndex must be a used slot"},
		{w.qp.Modify(&verbs.QPAttr{AH: verbs.AHAttr{Global: true, SGIDIndex: 5, Port: 1}}, verbs.QPAttrAV), syscall.ENODATA, "SGIDIndex must be a used slot"},
		{failed(w.pd.AllocMW(3)), syscall.EINVAL, ""},
		{w.qp.AttachMcast(group, 0), syscall.EINVAL, "only UD QPs take part in multicast"},
		{w.ud.AttachMcast(fakeverbs.IPv4GID, 0), syscall.EINVAL, "a multicast GID begins with ff"},
		{w.ud.DetachMcast(group, 0), syscall.EINVAL, ""},
		{w.cq.Resize(1 << 20), syscall.EINVAL, "1048576 is more than the device allows"},
		{w.srq.SetLimit(1000), syscall.EINVAL, "1000 is more than the SRQ has room for"},
		{w.srq.Resize(1 << 21), syscall.EINVAL, "2097152 is more than the device allows"},
		{w.srq.Resize(0), syscall.EINVAL, "maxWR is 0"},
		{w.mr.Rereg(uverbs.ReregOptions{Access: &writable}), syscall.EINVAL, "need AccessLocalWrite too"},
		{w.mr.Rereg(uverbs.ReregOptions{}), syscall.EINVAL, "neither PD nor Access"},
	} {
		if !errors.Is(c.err, c.errno) || !strings.Contains(c.err.Error(), c.hint) {
			t.Errorf("%v, want %v: %q", c.err, c.errno, c.hint)
		}
	}
	if n := len(w.k.AddressHandles()) + len(w.k.MWs()); n != 2 {
		t.Errorf("%q", w.k.Alive())
	}
}
