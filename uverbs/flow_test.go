package uverbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
	"github.com/goverbs/goverbs/verbs/flow"
)

// flowWorld has a flow that is counted.
type flowWorld struct {
	*hard
	qp       *uverbs.QP
	counters *uverbs.Counters
	flow     *uverbs.Flow
}

func newFlow(t testing.TB) *flowWorld {
	t.Helper()
	w := &flowWorld{hard: newHard(t)}
	w.qp = must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{Type: verbs.QPTypeUD, SendCQ: w.cq, RecvCQ: w.cq}))
	w.counters = must[*uverbs.Counters](t)(w.dev.CreateCounters())
	w.flow = must[*uverbs.Flow](t)(w.qp.CreateFlow(&uverbs.FlowOptions{Specs: []flow.Spec{w.counters}}))
	t.Cleanup(func() { closeAll(t, w.flow, w.counters, w.qp) })
	return w
}

func TestFlowEveryErrno(t *testing.T) {
	everyErrno(t, "hollow0", newFlow, []verb[*flowWorld]{
		{"CreateFlow", []string{"CREATE_FLOW"}, "create flow on hollow0", func(w *flowWorld) error { return closing(w.qp.CreateFlow(nil)) }},
		{"Flow.Close", []string{"FLOW_DESTROY"}, "close flow ", func(w *flowWorld) error { return w.flow.Close() }},
		{"CreateCounters", []string{"COUNTERS_CREATE"}, "create counters on hollow0", func(w *flowWorld) error { return closing(w.dev.CreateCounters()) }},
		{"Counters.Read", []string{"COUNTERS_READ"}, "read counters ", func(w *flowWorld) error { return w.counters.Read(make([]uint64, 2), false) }},
		{"Counters.Close", []string{"COUNTERS_DESTROY"}, "close counters ", func(w *flowWorld) error {
			if err := w.flow.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				return err
			}
			return w.counters.Close()
		}},
	})
}

// TestFlowSpecs compares each spec with the bytes that a packet has, as the kernel reads them.
func TestFlowSpecs(t *testing.T) {
	w := newFlow(t)
	ip := func(first byte) (a [16]byte) { a[0], a[15] = first, 1; return a }
	for _, c := range []struct {
		spec      flow.Spec
		typ       uint32
		val, mask string
	}{
		{&flow.Eth{Val: flow.EthFields{DstMAC: [6]byte{1, 2, 3, 4, 5, 6}, EtherType: 0x0800, VLANTag: 0x123}, Mask: flow.EthFields{EtherType: 0xffff}},
			0x20, "010203040506" + "000000000000" + "08000123", strings.Repeat("00", 12) + "ffff0000"},
		{&flow.IPv4{Val: flow.IPv4Fields{Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 0, 0, 2}, Proto: 17, TOS: 2, TTL: 64, Flags: 1}, Inner: true},
			0x130, "0a000001" + "0a000002" + "11024001", "000000000000000000000000"},
		{&flow.IPv6{Val: flow.IPv6Fields{Src: ip(0xfe), Dst: ip(0xff), FlowLabel: 0x12345, NextHeader: 17, TrafficClass: 2, HopLimit: 64}},
			0x31, fmt.Sprintf("%x%x", ip(0xfe), ip(0xff)) + "00012345" + "11024000", strings.Repeat("00", 40)},
		{&flow.TCP{Val: flow.Ports{Dst: 80, Src: 0x1234}, Mask: flow.Ports{Dst: 0xffff}}, 0x40, "00501234", "ffff0000"},
		{&flow.UDP{Val: flow.Ports{Dst: 4791}, Inner: true}, 0x141, "12b70000", "00000000"},
		{&flow.VXLAN{Val: 0x123456, Mask: 0xffffff}, 0x50, "00123456", "00ffffff"},
		{&flow.GRE{Val: flow.GREFields{Flags: 0x2000, Protocol: 0x6558, Key: 0x01020304}}, 0x51, "2000655801020304", "0000000000000000"},
		{&flow.MPLS{Val: 0x12345100, Mask: 0xfffff000}, 0x60, "12345100", "fffff000"},
		{&flow.ESP{Val: flow.ESPFields{SPI: 0x01020304, Seq: 5}}, 0x34, "0102030400000005", "0000000000000000"},
		{flow.Tag(7), 0x1000, "0700000000000000", ""},
		{flow.Drop{}, 0x1001, "", ""},
	} {
		rule, err := w.qp.CreateFlow(&uverbs.FlowOptions{Priority: 3, Flags: flow.DontTrap, Specs: []flow.Spec{c.spec}})
		if err != nil {
			t.Errorf("%T: %v", c.spec, err)
			continue
		}
		all := w.k.Flows()
		f := all[len(all)-1]
		got := f.Specs[0]
		if got.Type != c.typ || fmt.Sprintf("%x %x", got.Val, got.Mask) != c.val+" "+c.mask {
			t.Errorf("%T: type %#x, %x, %x", c.spec, got.Type, got.Val, got.Mask)
		}
		if f.QP != w.k.QueuePairs()[0] || f.Attr.Priority != 3 || f.Attr.Flags != 2 || f.Attr.Port != 1 {
			t.Errorf("%+v", f)
		}
		closeAll(t, rule)
	}
}

// TestFlowCounted checks that the driver gets the counters' kinds, and their values can be read.
func TestFlowCounted(t *testing.T) {
	w := newFlow(t)
	var points []byte
	w.k.Tamper = func(call string, r *ioctl.Request) {
		if call == "CREATE_FLOW" {
			b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_IN)
			points = bytes.Clone(b)
		}
	}
	fresh := must[*uverbs.Counters](t)(w.dev.CreateCounters())
	if err := fresh.Read(make([]uint64, 1), false); !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "no flow uses the counters") {
		t.Error(err)
	}
	if err := errors.Join(fresh.Count(flow.CounterBytes, 0), fresh.Count(flow.CounterPackets, 1)); err != nil {
		t.Error(err)
	}
	specs := []flow.Spec{&flow.UDP{}, fresh, flow.Drop{}}
	rule := must[*uverbs.Flow](t)(w.qp.CreateFlow(&uverbs.FlowOptions{Specs: specs}))
	if !bytes.Equal(points, []byte{1, 0, 0, 1}) {
		t.Errorf("%x", points)
	}
	k := w.k.AllCounters()[1]
	k.Values = []uint64{1500, 1}
	got := make([]uint64, 2)
	if err := fresh.Read(got, true); err != nil || !slices.Equal(got, k.Values) || !k.Cached {
		t.Errorf("%d, %v", got, err)
	}
	if err := fresh.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "flow") {
		t.Error(err)
	}
	if err := w.qp.Close(); !errors.Is(err, verbs.ErrInUse) || !strings.Contains(err.Error(), "flow") {
		t.Error(err)
	}
	closeAll(t, rule, fresh)
	if err := fresh.Count(flow.CounterBytes, 0); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
	if _, err := w.qp.CreateFlow(&uverbs.FlowOptions{Specs: specs}); !errors.Is(err, verbs.ErrClosed) {
		t.Error(err)
	}
}

// TestFlowRefused checks that nonsense is refused before the kernel sees it, or with a remedy.
func TestFlowRefused(t *testing.T) {
	w := newFlow(t)
	rc := must[*uverbs.QP](t)(w.pd.CreateQP(&uverbs.QPOptions{SendCQ: w.cq, RecvCQ: w.cq}))
	defer rc.Close()
	specs := func(s ...flow.Spec) error { return failed(w.qp.CreateFlow(&uverbs.FlowOptions{Specs: s})) }
	for want, err := range map[string]error{
		"at most 10 specs":              specs(slices.Repeat([]flow.Spec{flow.Drop{}}, 11)...),
		"spec 1 is nil":                 specs(flow.Drop{}, nil),
		"names no counters":             specs((*uverbs.Counters)(nil)),
		"port 256":                      failed(w.qp.CreateFlow(&uverbs.FlowOptions{Port: 256})),
		"only RAW_PACKET and UD QPs":    failed(rc.CreateFlow(nil)),
		"create flow on hollow0: inva":  specs(&flow.VXLAN{Val: 1 << 24}),
		"create flow on hollow0: inval": failed(w.qp.CreateFlow(&uverbs.FlowOptions{Type: flow.AllDefault, Flags: flow.DontTrap})),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := failed(newWorld(t).qp.CreateFlow(nil)); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "no flow rules") {
		t.Error(err)
	}
	if err := failed(newWorld(t).dev.CreateCounters()); !errors.Is(err, verbs.ErrNotSupported) {
		t.Error(err)
	}
}
