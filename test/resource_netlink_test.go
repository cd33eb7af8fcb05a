//go:build vm

package test

import (
	"errors"
	"iter"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

func dumped[T any](t *testing.T, dump iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for v, err := range dump {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// sameOne asks for each object of a list by its number.
func sameOne[T any](t *testing.T, list []T, get func(v T) (T, error)) {
	t.Helper()
	if len(list) == 0 {
		t.Errorf("no %T", list)
	}
	for _, want := range list {
		got, err := get(want)
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.AddrPort{})); err != nil || diff != "" {
			t.Errorf("%v (-dumped +got):\n%s", err, diff)
		}
	}
}

func TestResourceGet(t *testing.T) {
	for _, name := range resourceState(t) {
		var c netlinkrdma.Client
		d := must(c.DeviceByName(name))(t).Index
		qps := slices.DeleteFunc(dumped(t, c.DumpQP(d, nil)), func(q netlinkrdma.QP) bool { return q.Port == 0 })
		sameOne(t, qps, func(q netlinkrdma.QP) (netlinkrdma.QP, error) { return c.GetQP(d, q.Port, q.LQPN) })
		ids := slices.DeleteFunc(dumped(t, c.DumpCMID(d, nil)), func(m netlinkrdma.CMID) bool { return m.Port == 0 })
		sameOne(t, ids, func(m netlinkrdma.CMID) (netlinkrdma.CMID, error) { return c.GetCMID(d, m.Port, m.CMIDN) })
		sameOne(t, dumped(t, c.DumpCQ(d, nil)), func(q netlinkrdma.CQ) (netlinkrdma.CQ, error) { return c.GetCQ(d, q.CQN) })
		sameOne(t, dumped(t, c.DumpMR(d, nil)), func(m netlinkrdma.MR) (netlinkrdma.MR, error) { return c.GetMR(d, m.MRN) })
		sameOne(t, dumped(t, c.DumpPD(d, nil)), func(p netlinkrdma.PD) (netlinkrdma.PD, error) { return c.GetPD(d, p.PDN) })
		sameOne(t, dumped(t, c.DumpContext(d, nil)), func(x netlinkrdma.Context) (netlinkrdma.Context, error) { return c.GetContext(d, x.CTXN) })
		sameOne(t, dumped(t, c.DumpSRQ(d, nil)), func(s netlinkrdma.SRQ) (netlinkrdma.SRQ, error) { return c.GetSRQ(d, s.SRQN) })

		if _, err := c.GetCQ(d, 1<<30); !errors.Is(err, netlinkrdma.ErrNoObject) || !errors.Is(err, syscall.ENOENT) {
			t.Errorf("a CQ that is none: %v", err)
		}
		if _, err := c.GetCQ(1<<30, 1); !errors.Is(err, netlinkrdma.ErrNotFound) {
			t.Errorf("a device that is none: %v", err)
		}
		for _, err := range c.DumpRaw(d, netlinkrdma.RawQP, nil) {
			if !errors.Is(err, netlinkrdma.ErrNoRaw) {
				t.Errorf("raw data of a soft driver: %v", err)
			}
		}
	}
}

// TestResourceDumpLong: a dump of several datagrams gives each QP once, while
// others come and go behind them.
func TestResourceDumpLong(t *testing.T) {
	only612(t)
	const many = 1000
	dev := openRxe(t)
	noLeak(t)
	cq := must(dev.CreateCQ(16, nil))(t)
	closeLater(t, cq)
	create := func() *uverbs.QP {
		return must(dev.pd.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq,
			Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	}
	lives := make(map[uint32]bool)
	for range many {
		qp := create()
		closeLater(t, qp)
		lives[qp.Num()] = true
	}
	var c netlinkrdma.Client
	d := must(c.DeviceByName(rxeLink))(t).Index
	for range 5 {
		seen := make(map[uint32]int)
		for q, err := range c.DumpQP(d, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if seen[q.LQPN]++; len(seen)%100 == 0 {
				if err := create().Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for lqpn := range lives {
			if seen[lqpn] != 1 {
				t.Errorf("QP %d is given %d times", lqpn, seen[lqpn])
			}
		}
	}
	n := 0
	for _, err := range c.DumpQP(d, nil) {
		if n++; err != nil || n == 5 { // the rest is not wanted
			break
		}
	}
	if n != 5 {
		t.Errorf("%d QPs", n)
	}
}
