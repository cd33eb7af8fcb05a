//go:build vm

package test

import (
	"errors"
	"net"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// objects holds the objects of a test without a connection. They are closed when the test ends.
type kit struct {
	dev     *uverbs.Device
	pd      *uverbs.PD
	mr      *uverbs.MR
	channel *uverbs.CompChannel
	cq      *uverbs.CQ
}

func newKit(t *testing.T) *kit {
	t.Helper()
	fabric(t)
	o := &kit{dev: must(uverbs.Open(dummyLink))(t)}
	closeLater(t, o.dev)
	o.pd = must(o.dev.AllocPD())(t)
	closeLater(t, o.pd)
	o.mr = must(o.pd.AllocMR(memorySize, allAccess, nil))(t)
	closeLater(t, o.mr)
	o.channel = must(o.dev.CreateCompChannel())(t)
	closeLater(t, o.channel)
	o.cq = must(o.dev.CreateCQ(64, &uverbs.CQOptions{Channel: o.channel}))(t)
	closeLater(t, o.cq)
	return o
}

func (o *kit) qp(t *testing.T) *uverbs.QP {
	t.Helper()
	qp := must(o.pd.CreateQP(&uverbs.QPOptions{SendCQ: o.cq, RecvCQ: o.cq,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	closeLater(t, qp)
	return qp
}

// closeLater closes when the test ends, in the opposite order.
func closeLater(t *testing.T, c interface{ Close() error }) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // the test may have closed it
			t.Error(err)
		}
	})
}

// must returns a value, or ends the test: must(f())(t).
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
