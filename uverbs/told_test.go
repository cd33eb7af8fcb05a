package uverbs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestTold: objects tell what they were made of and with.
func TestTold(t *testing.T) {
	w := newWorld(t)
	if w.cq.Device() != w.dev || w.cq.Channel() != w.channel {
		t.Error("the CQ is of another device, or channel")
	}
	plain := must[*uverbs.CQ](t)(w.dev.CreateCQ(1, nil))
	if plain.Channel() != nil {
		t.Error("a CQ without a channel has one")
	}
	asked := verbs.QPCap{MaxSendWR: 3, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1}
	qp := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: plain, RecvCQ: plain, Cap: asked}))
	srq := must[*uverbs.SRQ](t)(w.pd.CreateSRQ(&uverbs.SRQOptions{MaxWR: 2, MaxSGE: 3}))
	c := qp.Cap()
	if c.MaxSendWR < asked.MaxSendWR || c.MaxRecvWR < asked.MaxRecvWR || c.MaxSendSGE < 1 || c.MaxRecvSGE < 1 {
		t.Errorf("%+v, asked for %+v", c, asked)
	}
	if srq.MaxSGE() < 3 {
		t.Errorf("%d SGEs, asked for 3", srq.MaxSGE())
	}
	closeAll(t, srq, qp, plain)

	r := worldOn(t, rxe0)
	mw := must[*uverbs.MW](t)(r.pd.AllocMW(verbs.MWType2))
	key := mw.RKey() ^ 0xff
	if mw.SetRKey(key); mw.RKey() != key {
		t.Errorf("key %#x, set to %#x", mw.RKey(), key)
	}
	closeAll(t, mw)

	if x := newXRC(t); x.xrcd.Device() != x.dev {
		t.Error("the XRCD is of another device")
	}
}

// TestWake: an event without a completion, which is not one of the device's.
func TestWake(t *testing.T) {
	w := newWorld(t)
	hooks.Wake(w.cq)
	if cq, err := w.channel.Get(t.Context()); cq != w.cq || err != nil {
		t.Error(cq, err)
	}
	if n, err := w.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil || w.kcq().Events() != 0 {
		t.Error(n, err, w.kcq().Events())
	}
}

// TestOpenPCINowhere: there is no such function, and the error says which there are.
func TestOpenPCINowhere(t *testing.T) {
	_, err := uverbs.OpenPCI("ffff:ff:1f.7")
	if !errors.Is(err, verbs.ErrNoDevice) || !strings.Contains(err.Error(), "PCI address ffff:ff:1f.7") {
		t.Error(err)
	}
}
