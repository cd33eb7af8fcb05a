package rdmatest_test

import (
	"errors"
	"os"
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestSendsRefused checks that requests that name a peer, and queue pairs that don't send, have no
// Sends.
func TestSendsRefused(t *testing.T) {
	f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
	d := closed(t, must(uverbs.Open(f.Host(0).Device(0).Name()))(t))
	pd := closed(t, must(d.AllocPD())(t))
	x := closed(t, must(d.OpenXRCD(nil, os.O_CREATE))(t))
	cq := closed(t, must(d.CreateCQ(4, nil))(t))
	create := func(typ verbs.QPType, recv *uverbs.CQ) *uverbs.QP {
		return closed(t, must(pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: recv}))(t))
	}
	for name, qp := range map[string]*uverbs.QP{
		"target": closed(t, must(x.CreateQP())(t)), "datagrams": create(verbs.QPTypeUD, cq), "initiator": create(verbs.QPTypeXRCInitiator, nil),
	} {
		q := qp.Sends()
		q.SendInline(1, verbs.SendSignaled, []byte("x"))
		if n, err := q.Ring(); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// TestSendsTarget checks that only the requests of a DCI have a target, with a builder of the
// provider's and without.
func TestSendsTarget(t *testing.T) {
	for _, kind := range []rdmatest.Kind{rdmatest.MLX5, rdmatest.RXE} {
		a, _ := two(t, rdmatest.NewWith(t, &rdmatest.Options{Kind: kind}), verbs.QPTypeRC, 0)
		q := a.qp.Sends()
		q.SetDCAddr(nil, 1, 2, 0)
		q.SendInline(1, 0, []byte("x"))
		if n, err := q.Ring(); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%v: %d, %v", kind, n, err)
		}
	}
}
