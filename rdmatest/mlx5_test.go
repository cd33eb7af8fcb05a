package rdmatest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestXRC: a host has one queue pair for all its processes, and each message says whose SRQ
// it is for.
func TestXRC(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	file := must(os.Create(filepath.Join(t.TempDir(), "domain")))(t)
	defer file.Close()
	a := newSender(t, f.Host(0).Device(0))
	var processes [2]*receiver
	for i := range processes {
		processes[i] = newReceiver(t, f.Host(1).Device(0), file)
		must(processes[i].srq.PostRecv([]verbs.RecvWR{{WRID: uint64(100 + i), SGL: []verbs.SGE{processes[i].mr.SGE(0, 100)}}}))(t)
	}
	made := closed(t, must(processes[0].xrcd.CreateQP())(t))
	if err := made.Init(&verbs.QPAttr{Access: all &^ verbs.AccessMWBind}); err != nil {
		t.Fatal(err)
	}
	target := closed(t, must(processes[1].xrcd.OpenQP(made.Num()))(t))
	connect := func(from *uverbs.QP, gid *verbs.GIDEntry, to uint32, dgid *verbs.GIDEntry) {
		if err := from.Connect(&verbs.QPAttr{DestQPN: to, AH: verbs.AHAttr{Global: true, DGID: dgid.GID, SGIDIndex: gid.Index, HopLimit: 64}}); err != nil {
			t.Fatal(err)
		}
	}
	connect(a.qp, a.gid, target.Num(), processes[1].gid)
	connect(target, processes[1].gid, a.qp.Num(), a.gid)
	for i, p := range processes {
		a.post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte{'a' + byte(i)}, SRQN: p.srq.Num()})
		if wc := a.next(); wc.Err() != nil {
			t.Fatal(wc)
		}
		wcs := make([]verbs.WC, 2)
		n, err := p.cq.Poll(wcs)
		if n != 1 || err != nil || wcs[0].WRID != uint64(100+i) || wcs[0].QPN != target.Num() || wcs[0].ByteLen != 1 || p.mr.Bytes()[0] != 'a'+byte(i) {
			t.Errorf("process %d: %d, %v, %+v, %q", i, n, err, wcs[0], p.mr.Bytes()[0])
		}
		a.post(verbs.SendWR{Opcode: verbs.OpRDMAWrite, Inline: []byte("written"), SRQN: p.srq.Num(), RemoteAddr: p.mr.Addr() + 200, RKey: p.mr.RKey()})
		if wc := a.next(); wc.Err() != nil || string(p.mr.Bytes()[200:207]) != "written" {
			t.Errorf("%v, %q", wc, p.mr.Bytes()[200:207])
		}
	}
	a.post(verbs.SendWR{Opcode: verbs.OpSend, Inline: []byte("x"), SRQN: 0xfffff0})
	if wc := a.next(); wc.Status != verbs.StatusRemInvReqErr {
		t.Errorf("to no SRQ: %v", wc)
	}
}

// receiver is a process's part in a domain of XRC.
type receiver struct {
	xrcd *uverbs.XRCD
	cq   *uverbs.CQ
	mr   *uverbs.MR
	srq  *uverbs.SRQ
	gid  *verbs.GIDEntry
}

func newReceiver(t *testing.T, d *rdmatest.Device, file *os.File) *receiver {
	t.Helper()
	p := &receiver{}
	dev := closed(t, must(uverbs.Open(d.Name()))(t))
	pd := closed(t, must(dev.AllocPD())(t))
	p.gid = must(dev.ChooseGID(1, nil))(t)
	p.cq = closed(t, must(dev.CreateCQ(8, nil))(t))
	p.mr = closed(t, must(pd.AllocMR(4096, all, nil))(t))
	p.xrcd = closed(t, must(dev.OpenXRCD(file, os.O_CREATE))(t))
	p.srq = closed(t, must(pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 4, MaxSGE: 1, XRCD: p.xrcd, CQ: p.cq}))(t))
	return p
}

// newSender makes an initiator of XRC, in INIT.
func newSender(t *testing.T, d *rdmatest.Device) *node {
	t.Helper()
	n := &node{t: t}
	n.dev = closed(t, must(uverbs.Open(d.Name()))(t))
	n.pd = closed(t, must(n.dev.AllocPD())(t))
	n.ch = closed(t, must(n.dev.CreateCompChannel())(t))
	n.cq = closed(t, must(n.dev.CreateCQ(64, &uverbs.CQOptions{Channel: n.ch}))(t))
	n.gid = must(n.dev.ChooseGID(1, nil))(t)
	n.qp = closed(t, must(n.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: n.cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 2, MaxInline: 64}}))(t))
	if err := n.qp.Init(&verbs.QPAttr{}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMLX5Outcomes: what goes wrong on a network card, with the statuses of the InfiniBand
// specification where soft RoCE has its own.
func TestMLX5Outcomes(t *testing.T) {
	const rc, uc, ud = verbs.QPTypeRC, verbs.QPTypeUC, verbs.QPTypeUD
	const send, write, read = verbs.OpSend, verbs.OpRDMAWrite, verbs.OpRDMARead
	const tooLong, unwritable = "1000 local length error, 1001 work request flushed; ERR", "1000 local protection error, 1001 work request flushed; ERR"
	runTrials(t, rdmatest.MLX5, map[string]trial{
		"SEND":                        {rc, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 8, 1001 work request flushed; RTS"},
		"UC SEND":                     {uc, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 8, 1001 work request flushed; RTS"},
		"UD SEND":                     {ud, send, 8, all, nil, "1 SEND success; RTS", "1000 RECV success 48, 1001 work request flushed; RTS"},
		"SEND, local key":             {rc, send, 8, all, badLKey, "1 local protection error; ERR", untouched},
		"READ, local key":             {rc, read, 8, all, badLKey, "1 local protection error; ERR", untouched},
		"WRITE, remote key":           {rc, write, 8, all, badRKey, refused, lost},
		"SEND, receive too short":     {rc, send, recvSize + 1, all, nil, "1 remote invalid request; ERR", tooLong},
		"SEND, receive not writable":  {rc, send, 8, verbs.AccessRemoteRead, nil, "1 remote operation error; ERR", unwritable},
		"UC SEND, receive too short":  {uc, send, recvSize + 1, all, nil, "1 SEND success; RTS", tooLong},
		"UD SEND, receive too short":  {ud, send, recvSize - uverbs.GRHSize + 1, all, nil, "1 SEND success; RTS", untouched},
		"UD SEND, not writable there": {ud, send, 8, verbs.AccessRemoteRead, nil, "1 SEND success; RTS", unwritable},
		"BIND_MW, no region":          {rc, verbs.OpBindMW, 0, all, nil, "1 memory window bind error; ERR", untouched},
	})
}
