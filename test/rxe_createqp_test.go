//go:build vm

package test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestRxeCreateQP makes QPs of each type with the least, with some and with the
// most that can be requested. More is refused, and the error says so.
func TestRxeCreateQP(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ verbs.QPType) {
		rxeFabric(t)
		noLeak(t)
		d := openRxe(t)
		cq := must(d.CreateCQ(16, nil))(t)
		closeLater(t, cq)
		create := func(c verbs.QPCap) (*uverbs.QP, error) {
			return d.pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: c})
		}
		numbers := make(map[uint32]bool)
		for _, ask := range []verbs.QPCap{
			{},
			{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1},
			{MaxSendWR: 10, MaxRecvWR: 20, MaxSendSGE: 3, MaxRecvSGE: 4, MaxInline: 100},
			{MaxSendWR: 10, MaxRecvWR: 10, MaxSendSGE: d.attr.MaxSGE, MaxRecvSGE: d.attr.MaxSGE, MaxInline: 512},
		} {
			qp := must(create(ask))(t)
			closeLater(t, qp)
			attr := must(qp.Query())(t)
			if !atLeast(qp.Cap(), ask) || attr.State != verbs.QPStateReset || qp.Type() != typ || numbers[qp.Num()] || qp.Num() < 2 {
				t.Errorf("asked for %+v, got %+v and %+v", ask, qp, attr)
			}
			numbers[qp.Num()] = true
		}
		const most = 1<<32 - 1
		for field, c := range map[string]verbs.QPCap{
			"MaxSendWR":  {MaxSendWR: d.attr.MaxQPWR + 1},
			"MaxRecvWR":  {MaxRecvWR: d.attr.MaxQPWR + 1},
			"MaxSendSGE": {MaxSendSGE: d.attr.MaxSGE + 1},
			"MaxRecvSGE": {MaxRecvSGE: d.attr.MaxSGE + 1},
			"MaxInline":  {MaxInline: 513},
		} {
			refusedFor(t, field, func() error { return failedQP(create(c)) })
		}
		for field, c := range map[string]verbs.QPCap{
			"MaxSendWR": {MaxSendWR: most}, "MaxRecvWR": {MaxRecvWR: most}, "MaxSendSGE": {MaxSendSGE: most}, "MaxRecvSGE": {MaxRecvSGE: most},
			"MaxInline": {MaxInline: most},
		} {
			refusedFor(t, field, func() error { return failedQP(create(c)) })
		}
	})
}

func failedQP(_ *uverbs.QP, err error) error { return err }

func atLeast(c, ask verbs.QPCap) bool {
	return c.MaxSendWR >= ask.MaxSendWR && c.MaxRecvWR >= ask.MaxRecvWR && c.MaxSendSGE >= ask.MaxSendSGE &&
		c.MaxRecvSGE >= ask.MaxRecvSGE && c.MaxInline >= ask.MaxInline
}

// refusedFor expects an error that names the excessive value.
func refusedFor(t *testing.T, field string, create func() error) {
	t.Helper()
	if err := create(); err == nil || !strings.Contains(err.Error(), field) {
		t.Errorf("%s: %v", field, err)
	}
}

// TestRxeCreateQPRefused asks for what soft RoCE has no QP of, and for QPs of
// objects that are missing or gone.
func TestRxeCreateQPRefused(t *testing.T) {
	rxeFabric(t)
	noLeak(t)
	d := openRxe(t)
	cq := must(d.CreateCQ(16, nil))(t)
	closeLater(t, cq)
	for name, typ := range map[string]verbs.QPType{
		"GSI": 1, "raw IPv6": 5, "raw Ethertype": 6, "raw packet": 8, "driver": 0xff, "unknown": 99,
	} {
		_, err := d.pd.CreateQP(&uverbs.QPOptions{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		if !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := d.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeXRCInitiator, SendCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
	if !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("XRC initiator: %v", err)
	}
	if _, err := d.OpenXRCD(nil, 0); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("XRC domain: %v", err)
	}
	gone := must(d.CreateCQ(1, nil))(t)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]*uverbs.QPOptions{
		"nothing": nil, "no CQ": {}, "no receive CQ": {SendCQ: cq}, "CQ closed": {SendCQ: cq, RecvCQ: gone},
	} {
		if _, err := d.pd.CreateQP(opts); err == nil {
			t.Errorf("%s: created", name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	cancel()
	if _, err := d.AsyncEvent(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an event: %v", err)
	}
}
