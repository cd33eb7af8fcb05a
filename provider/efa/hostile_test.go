package efa

import (
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/providertest"
	"github.com/goverbs/goverbs/internal/regions"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// tamper changes the driver's answer to a call.
func tamper[T any](call string, change func(*T)) func(string, *ioctl.Request) {
	return func(c string, r *ioctl.Request) {
		if c == call {
			var answer T
			ioctl.Argument(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
			change(&answer)
			ioctl.Answer(r, abi.UVERBS_ATTR_UHW_OUT, &answer)
		}
	}
}

// TestHostileAnswers has the kernel's answers to create calls hold impossible values: an
// error, the kernel's object destroyed again, nothing leaked.
func TestHostileAnswers(t *testing.T) {
	type cqAnswer = abi.EfaIbvCreateCqResp
	type qpAnswer = abi.EfaIbvCreateQpResp
	makeCQ := func(w *world) error {
		_, err := w.dev.CreateCQ(4, &uverbs.CQOptions{Channel: w.cq.Channel()})
		return err
	}
	makeQP := func(w *world) error {
		_, err := w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeSRD, SendCQ: w.cq, RecvCQ: w.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
		return err
	}
	for name, c := range map[string]struct {
		tamper func(string, *ioctl.Request)
		create func(*world) error
	}{
		"CQ too short":         {tamper("CQ_CREATE", func(a *cqAnswer) { a.QMmapSize = 4*cqeSize - 1 }), makeCQ},
		"CQ too long":          {tamper("CQ_CREATE", func(a *cqAnswer) { a.QMmapSize = 8192 }), makeCQ},
		"CQ's length negative": {tamper("CQ_CREATE", func(a *cqAnswer) { a.QMmapSize = 1 << 63 }), makeCQ},
		"no such CQ":           {tamper("CQ_CREATE", func(a *cqAnswer) { a.QMmapKey = 1 << 63 }), makeCQ},
		"no doorbell of a CQ":  {tamper("CQ_CREATE", func(a *cqAnswer) { a.CompMask = 0 }), makeCQ},
		"CQ's doorbell odd":    {tamper("CQ_CREATE", func(a *cqAnswer) { a.DbOff |= 2 }), makeCQ},
		"CQ's doorbell far":    {tamper("CQ_CREATE", func(a *cqAnswer) { a.DbOff = 4096 }), makeCQ},
		"CQ's doorbell gone":   {tamper("CQ_CREATE", func(a *cqAnswer) { a.DbMmapKey = 1 << 40 }), makeCQ},
		"sends far":            {tamper("QP_CREATE", func(a *qpAnswer) { a.LlqDescOffset = 4096 }), makeQP},
		"sends odd":            {tamper("QP_CREATE", func(a *qpAnswer) { a.LlqDescOffset = 32 }), makeQP},
		"sends gone":           {tamper("QP_CREATE", func(a *qpAnswer) { a.LlqDescMmapKey = 1 << 40 }), makeQP},
		"doorbell of sends":    {tamper("QP_CREATE", func(a *qpAnswer) { a.SqDbOffset = 1<<32 - 4 }), makeQP},
		"doorbell of receives": {tamper("QP_CREATE", func(a *qpAnswer) { a.RqDbOffset++ }), makeQP},
		"receives too short":   {tamper("QP_CREATE", func(a *qpAnswer) { a.RqMmapSize = 63 }), makeQP},
		"receives too long":    {tamper("QP_CREATE", func(a *qpAnswer) { a.RqMmapSize = 1 << 63 }), makeQP},
		"receives gone":        {tamper("QP_CREATE", func(a *qpAnswer) { a.RqMmapKey = 0 }), makeQP},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			alive, live := w.k.Alive(), regions.Live()
			w.k.Tamper = c.tamper
			if err := c.create(w); err == nil || !strings.Contains(err.Error(), "on efa_0") {
				t.Errorf("error is %v", err)
			}
			if !slices.Equal(w.k.Alive(), alive) || regions.Live() != live {
				t.Errorf("%q and %d regions, before %q and %d", w.k.Alive(), regions.Live(), alive, live)
			}
		})
	}
}

// TestHostileOpen has limits that no device has.
func TestHostileOpen(t *testing.T) {
	for name, change := range map[string]func(*abi.EfaIbvAllocUcontextResp){
		"no parts of CQs":   func(a *abi.EfaIbvAllocUcontextResp) { a.SubCqsPerCq = 0 },
		"many parts of CQs": func(a *abi.EfaIbvAllocUcontextResp) { a.SubCqsPerCq = 65535 },
		"no sends":          func(a *abi.EfaIbvAllocUcontextResp) { a.MaxLlqSize = 63 },
		"no numbers of AHs": func(a *abi.EfaIbvAllocUcontextResp) { a.CmdsSuppUdataMask = 1 },
		"no limits":         func(a *abi.EfaIbvAllocUcontextResp) { a.CmdsSuppUdataMask = 2 },
	} {
		k := fakeverbs.New(uint32(verbs.DriverEFA))
		k.Tamper = tamper("GET_CONTEXT", change)
		live := regions.Live()
		if dev, err := providertest.OpenOn(info, k); err == nil {
			t.Errorf("%s: it opens", name)
			_ = dev.Close()
		}
		if leaks := k.Leaks(); len(leaks) > 0 || regions.Live() != live {
			t.Errorf("%s: %q; %d regions", name, leaks, regions.Live()-live)
		}
	}
}

// TestHostileLimits has limits that are possible one by one, and sizes that do not fit.
func TestHostileLimits(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*abi.EfaIbvAllocUcontextResp)
		cap    verbs.QPCap
	}{
		"minimum beyond the limit":  {func(a *abi.EfaIbvAllocUcontextResp) { a.MinSqWr = 65535 }, verbs.QPCap{}},
		"batch below an entry":      {func(a *abi.EfaIbvAllocUcontextResp) { a.MaxTxBatch = 1 }, verbs.QPCap{MaxInline: 80}},
		"too many sends":            {func(a *abi.EfaIbvAllocUcontextResp) { a.MaxLlqSize = 256 }, verbs.QPCap{MaxSendWR: 5}},
		"sends beyond a power of 2": {func(a *abi.EfaIbvAllocUcontextResp) { a.MaxLlqSize = 6 * 64 }, verbs.QPCap{MaxSendWR: 5}},
		"most sends":                {func(a *abi.EfaIbvAllocUcontextResp) {}, verbs.QPCap{MaxSendWR: 1<<32 - 1}},
		"most receives":             {func(a *abi.EfaIbvAllocUcontextResp) {}, verbs.QPCap{MaxRecvWR: 1<<32 - 1}},
		"most SGEs":                 {func(a *abi.EfaIbvAllocUcontextResp) {}, verbs.QPCap{MaxRecvSGE: 1<<32 - 1}},
		"receives times SGEs":       {func(a *abi.EfaIbvAllocUcontextResp) {}, verbs.QPCap{MaxRecvWR: 1 << 16, MaxRecvSGE: 1 << 16}},
		"inline":                    {func(a *abi.EfaIbvAllocUcontextResp) {}, verbs.QPCap{MaxInline: 81}},
	} {
		k := fakeverbs.New(uint32(verbs.DriverEFA))
		k.Tamper = tamper("GET_CONTEXT", c.change)
		end := providertest.Endpoint(t, info, k, nil)
		if _, err := end.PD.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeSRD, SendCQ: end.SendCQ, RecvCQ: end.SendCQ, Cap: c.cap}); err == nil {
			t.Errorf("%s: it is created", name)
		}
	}
}
