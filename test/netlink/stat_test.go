//go:build vm

package netlink

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// TestNldevCounters compares the counters of rxe with the kernel's files; siw
// has none.
func TestNldevCounters(t *testing.T) {
	const dir = "/sys/class/infiniband/gvcountrxe/ports/1/hw_counters/"
	var c netlinkrdma.Client
	for _, typ := range kit.LinkTypes() {
		kit.Dummy(t, "gvcount"+typ)
		index := kit.Link(t, "gvcount"+typ, typ, "gvcount"+typ).Index
		counters, err := c.PortCounters(index, 1)
		list, err2 := c.CounterStatus(index, 1)
		err3 := c.SetOptionalCounters(index, 1)
		err4 := c.SetAutoCounters(index, 1, netlinkrdma.CountByType, nil)
		if typ == "siw" {
			if !errors.Is(err, netlinkrdma.ErrNoStatistics) || !errors.Is(err2, netlinkrdma.ErrNoStatistics) ||
				!errors.Is(err3, syscall.EINVAL) || !errors.Is(err4, syscall.EOPNOTSUPP) {
				t.Error(err, err2, err3, err4)
			}
			continue
		}
		change(t, errors.Join(err, err2, err3, err4))
		var files, names, status []string
		for _, entry := range kit.Must(os.ReadDir(dir))(t) {
			if entry.Name() != "lifespan" {
				files = append(files, entry.Name())
			}
		}
		for i, n := range counters {
			kit.Same(t, dir+n.Name, fmt.Sprint(n.Value))
			names, status = append(names, n.Name), append(status, list[i].Name)
			if s := list[i]; s.Index != uint32(i) || s.Optional || !s.Enabled {
				t.Errorf("%+v", s)
			}
		}
		if diff := cmp.Diff(names, status); diff != "" {
			t.Error(diff)
		}
		slices.Sort(names)
		if diff := cmp.Diff(files, names); diff != "" {
			t.Errorf("(-sysfs +netlink):\n%s", diff)
		}
		if err := c.SetOptionalCounters(index, 1, "sent_pkts"); !errors.Is(err, netlinkrdma.ErrNoObject) || !strings.Contains(err.Error(), "the port has none") {
			t.Error(err)
		}
	}
	if _, err := c.PortCounters(4711, 1); !errors.Is(err, netlinkrdma.ErrNoStatistics) {
		t.Error(err)
	}
}

// TestNldevCounterMode checks that rxe lets the mode be set, and has no counters to bind.
func TestNldevCounterMode(t *testing.T) {
	dev := kit.OpenRxe(t)
	cq := kit.Must(dev.CreateCQ(16, nil))(t)
	kit.CloseLater(t, cq)
	qp := kit.Must(dev.PD.CreateQP(&uverbs.QPOptions{SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	kit.CloseLater(t, qp)
	var c netlinkrdma.Client
	d := kit.Must(c.DeviceByName(kit.RxeLink))(t).Index
	if _, err := c.BindCounter(d, 1, qp.QPN()); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("bind: %v", err)
	}
	if _, err := c.BindCounter(d, 1, 1<<23); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("bind no QP: %v", err)
	}
	if err := c.UnbindCounter(d, 1, qp.QPN(), 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("unbind: %v", err)
	}
	for _, want := range []netlinkrdma.CounterSetting{
		{Mode: netlinkrdma.CountersAuto, By: netlinkrdma.CountByType},
		{Mode: netlinkrdma.CountersAuto, By: netlinkrdma.CountByType | netlinkrdma.CountByPID},
		{},
	} {
		change(t, c.SetAutoCounters(d, 1, want.By, nil))
		if !kit.OnKernel("6.1") && !kit.OnKernel("6.12") && want.By != 0 {
			want.Optional.Known = true // older kernels don't report it
		}
		if got := kit.Must(c.CounterMode(d, 1))(t); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if err := c.BindToCounter(d, 1, qp.QPN(), 1); want.Mode == netlinkrdma.CountersAuto && !errors.Is(err, syscall.EINVAL) || want.Mode != netlinkrdma.CountersAuto && !errors.Is(err, syscall.ENOENT) {
			t.Errorf("bind in mode %v: %v", want.Mode, err)
		}
	}
	if err := c.SetAutoCounters(d, 1, 1<<5, nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an unknown trait: %v", err)
	}
	err := c.SetAutoCounters(d, 1, netlinkrdma.CountByPID, &netlinkrdma.AutoOptions{Optional: true})
	if kit.OnKernel("6.1") || kit.OnKernel("6.12") {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "optional counters") {
			t.Error(err)
		}
		return
	}
	change(t, err)
	want := netlinkrdma.CounterSetting{Mode: netlinkrdma.CountersAuto, By: netlinkrdma.CountByPID, Optional: netlinkrdma.Opt[bool]{Value: true, Known: true}}
	if got := kit.Must(c.CounterMode(d, 1))(t); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	change(t, c.SetAutoCounters(d, 1, 0, nil))
}

// TestNldevCountersOf checks that nothing is bound on rxe, and nothing counted of its MRs.
func TestNldevCountersOf(t *testing.T) {
	dev := kit.OpenRxe(t)
	mr := kit.Must(dev.PD.AllocMR(4096, verbs.AccessLocalWrite, nil))(t)
	kit.CloseLater(t, mr)
	var c netlinkrdma.Client
	d := kit.Must(c.DeviceByName(kit.RxeLink))(t).Index
	if list := kit.Dumped(t, c.QPCounters(d, nil)); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	if _, err := c.QPCounter(d, 1, 1); !errors.Is(err, netlinkrdma.ErrNoObject) {
		t.Error(err)
	}
	var want []netlinkrdma.MRCounters
	for _, m := range kit.Dumped(t, c.MRs(d, nil)) {
		want = append(want, netlinkrdma.MRCounters{MRN: m.MRN})
	}
	if diff := cmp.Diff(want, kit.Dumped(t, c.AllMRCounters(d, nil))); diff != "" || len(want) == 0 {
		t.Errorf("%d MRs (-want +got):\n%s", len(want), diff)
	}
	if m := kit.Must(c.MRCounters(d, want[0].MRN))(t); m.MRN != want[0].MRN {
		t.Errorf("%+v", m)
	}
}
