package rdmatest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// node is a queue pair that is connected by hand, with memory: receives go to its first
// half, sends come from its second.
type node struct {
	t      *testing.T
	dev    *uverbs.Device
	pd     *uverbs.PD
	ch     *uverbs.CompChannel
	cq     *uverbs.CQ
	qp     *uverbs.QP
	mr     *uverbs.MR
	gid    *verbs.GIDEntry
	change func(*verbs.QPAttr) // of the attributes with which it is connected, or nil
}

const (
	memory   = 8192
	sendFrom = memory / 2
	recvSize = 100
	all      = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic | verbs.AccessMWBind
	qkey     = 0x1234

	everything = all | verbs.AccessFlushGlobal
)

// newNode makes a queue pair of a device, in INIT.
func newNode(t *testing.T, d *rdmatest.Device, typ verbs.QPType, access verbs.Access) *node {
	t.Helper()
	return newNodeFor(t, d, typ, access, all&^verbs.AccessMWBind)
}

// newNodeFor makes one that lets its peer do so much.
func newNodeFor(t *testing.T, d *rdmatest.Device, typ verbs.QPType, access, peer verbs.Access) *node {
	t.Helper()
	return newNodeOn(t, d, typ, access, peer, uverbs.CQOptions{})
}

// newNodeOn makes one whose CQ has these options.
func newNodeOn(t *testing.T, d *rdmatest.Device, typ verbs.QPType, access, peer verbs.Access, cq uverbs.CQOptions) *node {
	t.Helper()
	n := &node{t: t}
	n.dev = closed(t, must(uverbs.Open(d.Name()))(t))
	end := closed(t, must(n.dev.CreateEndpoint(&uverbs.EndpointOptions{SendCQEntries: 64, CQ: cq}))(t))
	n.pd, n.cq, n.ch = end.PD, end.SendCQ, end.SendCQ.Channel()
	n.mr = must(n.pd.AllocMR(memory, access, nil))(t)
	n.gid = must(n.dev.ChooseGID(1, nil))(t)
	n.qp = must(end.CreateQP(&uverbs.QPOptions{Type: typ,
		Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: min(2, must(n.dev.QueryDevice())(t).MaxSGE), MaxInline: 64}}))(t)
	if err := n.qp.Init(&verbs.QPAttr{Access: peer, QKey: qkey}); err != nil {
		t.Fatal(err)
	}
	return n
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func closed[T interface{ Close() error }](t *testing.T, c T) T {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// connectExactly takes the queue pair to RTS with exactly these attributes. QP.Connect replaces zeros.
func (n *node) connectExactly(to *node) {
	n.t.Helper()
	a := &verbs.QPAttr{State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: to.qp.QPN(), MaxDestRDAtomic: 4, RNRTimer: 640 * time.Microsecond,
		AH:         verbs.AHAttr{Port: 1, Global: true, DGID: to.gid.GID, SGIDIndex: n.gid.Index},
		AckTimeout: 67 * time.Millisecond, RetryCnt: 7, RNRRetry: 7, MaxRDAtomic: 4}
	n.change(a)
	if err := n.qp.Modify(a, verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPN|verbs.QPAttrRQPSN|
		verbs.QPAttrMaxDestRDAtomic|verbs.QPAttrRNRTimer); err != nil {
		n.t.Fatal(err)
	}
	a.State = verbs.QPStateRTS
	if err := n.qp.Modify(a, verbs.QPAttrState|verbs.QPAttrSQPSN|verbs.QPAttrAckTimeout|verbs.QPAttrRetryCnt|verbs.QPAttrRNRRetry|
		verbs.QPAttrMaxQPRDAtomic); err != nil {
		n.t.Fatal(err)
	}
}

// connect takes the queue pair to RTS.
func (n *node) connect(to *node, change func(*verbs.QPAttr)) {
	n.t.Helper()
	if n.change != nil {
		n.connectExactly(to)
		return
	}
	a := &verbs.QPAttr{DestQPN: to.qp.QPN(), AH: verbs.AHAttr{Global: true, DGID: to.gid.GID, SGIDIndex: n.gid.Index, HopLimit: 64}}
	if change != nil {
		change(a)
	}
	if err := n.qp.Connect(a); err != nil {
		n.t.Fatal(err)
	}
}

// two are connected queue pairs on two hosts; the second has two receives, 1000 and 1001.
func two(t *testing.T, f *rdmatest.Fabric, typ verbs.QPType, hisAccess verbs.Access) (a, b *node) {
	t.Helper()
	a, b = newNode(t, f.Host(0).Device(0), typ, all), newNode(t, f.Host(1).Device(0), typ, hisAccess)
	a.meets(b)
	return a, b
}

// meets connects a queue pair to another one, which gets two receives, 1000 and 1001.
func (n *node) meets(peer *node) {
	n.t.Helper()
	n.connect(peer, nil)
	peer.connect(n, nil)
	peer.receive(1000, 0, recvSize)
	peer.receive(1001, recvSize, recvSize)
}

func (n *node) receive(id uint64, off, size int) {
	n.t.Helper()
	if _, err := n.qp.PostRecv([]verbs.RecvWR{{WRID: id, SGL: []verbs.SGE{n.mr.SGE(off, size)}}}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) post(wr verbs.SendWR) {
	n.t.Helper()
	wr.Flags |= verbs.SendSignaled
	if _, err := n.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		n.t.Fatal(err)
	}
}

// next waits for a completion.
func (n *node) next() verbs.WC {
	n.t.Helper()
	var wcs [1]verbs.WC
	if _, err := n.cq.Wait(context.Background(), wcs[:]); err != nil {
		n.t.Fatal(err)
	}
	return wcs[0]
}

// outcome is how a work request ended.
func outcome(wc verbs.WC) string {
	switch {
	case wc.Status != verbs.StatusSuccess:
		return fmt.Sprintf("%d %v", wc.WRID, wc.Status)
	case wc.Opcode == verbs.WCRecv || wc.Opcode == verbs.WCRecvRDMAWithImm:
		return fmt.Sprintf("%d %v success %d", wc.WRID, wc.Opcode, wc.ByteLen)
	}
	return fmt.Sprintf("%d %v success", wc.WRID, wc.Opcode)
}

// story is all that became of a queue pair, which this ends, and the state it was in.
func (n *node) story() string {
	n.t.Helper()
	state := must(n.qp.Query())(n.t).State
	if err := n.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState); err != nil {
		n.t.Error(err)
	}
	var all []string
	wcs := make([]verbs.WC, 16)
	k, err := n.cq.Poll(wcs)
	for _, wc := range wcs[:k] {
		all = append(all, outcome(wc))
	}
	if err != nil {
		n.t.Error(err)
	}
	return strings.Join(all, ", ") + "; " + state.String()
}

// to is a work request for the peer's memory.
func (n *node) to(peer *node, op verbs.Opcode, size int) verbs.SendWR {
	wr := verbs.SendWR{WRID: 1, Opcode: op, SGL: []verbs.SGE{n.mr.SGE(sendFrom, size)}, RemoteAddr: peer.mr.Addr(), RKey: peer.mr.RKey()}
	if n.qp.Type() == verbs.QPTypeUD {
		ah := must(n.pd.CreateAH(&verbs.AHAttr{Port: 1, Global: true, DGID: peer.gid.GID, SGIDIndex: n.gid.Index}))(n.t)
		n.t.Cleanup(func() {
			if err := ah.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				n.t.Error(err)
			}
		})
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, peer.qp.QPN(), qkey
	}
	return wr
}
