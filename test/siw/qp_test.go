//go:build vm

package siw

import (
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestCreateQP checks that a QP holds at least the requested number of requests, and as many as it reports.
func TestCreateQP(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	for _, asked := range []verbs.QPCap{
		{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
		{MaxSendWR: 100, MaxRecvWR: 200, MaxSendSGE: 6, MaxRecvSGE: 6, MaxInline: 80},
		{MaxRecvWR: 4, MaxRecvSGE: 1}, // siw wants a send queue all the same
		{MaxSendWR: 4, MaxSendSGE: 1},
	} {
		qp := kit.Must(k.pd.CreateQP(&uverbs.QPOptions{SendCQ: k.cq, RecvCQ: k.cq, Cap: asked}))(t)
		got := qp.Cap()
		if got.MaxSendWR < asked.MaxSendWR || got.MaxRecvWR < asked.MaxRecvWR || got.MaxSendSGE < asked.MaxSendSGE ||
			got.MaxRecvSGE < asked.MaxRecvSGE || got.MaxInline < asked.MaxInline {
			t.Errorf("asked for %+v, got %+v", asked, got)
		}
		recvs := make([]verbs.RecvWR, got.MaxRecvWR+1)
		if n, err := qp.PostRecv(recvs); n != int(got.MaxRecvWR) || err == nil {
			t.Errorf("%+v: %d receives posted, %v", got, n, err)
		}
		if qp.Type() != verbs.QPTypeRC {
			t.Errorf("it is %v", qp.Type())
		}
		if err := qp.Close(); err != nil {
			t.Error(err)
		}
		if err := qp.Close(); !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestCreateQPRefused checks that options that siw lacks are refused.
func TestCreateQPRefused(t *testing.T) {
	kit.NoLeak(t)
	k := newObjects(t)
	fair := verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	huge := fair
	huge.MaxSendWR = kit.Must(k.dev.QueryDevice())(t).MaxQPWR + 1
	wide := fair
	wide.MaxRecvSGE = 7
	for _, test := range []struct {
		opts uverbs.QPOptions
		want error
	}{
		{uverbs.QPOptions{SendCQ: k.cq, RecvCQ: k.cq, Cap: huge}, syscall.EINVAL},
		{uverbs.QPOptions{SendCQ: k.cq, RecvCQ: k.cq, Cap: wide}, syscall.EINVAL},
		{uverbs.QPOptions{SendCQ: k.cq, Cap: fair}, syscall.EINVAL},
		{uverbs.QPOptions{SendCQ: k.cq, RecvCQ: k.cq, Cap: fair, Type: verbs.QPTypeUD}, verbs.ErrNotSupported},
		{uverbs.QPOptions{SendCQ: k.cq, RecvCQ: k.cq, Cap: fair, Type: verbs.QPTypeUC}, verbs.ErrNotSupported},
	} {
		if _, err := k.pd.CreateQP(&test.opts); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v, want %v", test.opts, err, test.want)
		}
	}
}

// TestSignalAll checks that every send of such a QP completes, and nothing else does, of all that Dial may have to send
// before.
func TestSignalAll(t *testing.T) {
	kit.Fabric(t)
	kit.NoLeak(t)
	var all kit.Setup
	all.Cfg.QP.SignalAll = true
	for range 20 {
		c, _ := connect(t, all, kit.Setup{})
		c.Post(c.AtPeer(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{c.MR.SGE(0, 8)}}))
		c.Sent("1 RDMA_WRITE success")
	}
}
