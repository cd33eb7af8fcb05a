package doctor

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/goverbs/goverbs/verbs"
)

// bridged is dummy0 set up for RoCE: priority 3, DSCP 26, half of the link.
func bridged() *rtnetlink.DCB {
	d := &rtnetlink.DCB{HasPFC: true, PFC: 1 << 3, HasETS: true, Trust: []rtnetlink.Selector{rtnetlink.SelectDSCP}}
	d.Class[3], d.Share[3], d.Shared[3] = 3, 50, true
	d.DSCP[26], d.HasDSCP[26] = 3, true
	return d
}

// withCard is a machine whose rxe0 is a network card's, of a driver without a provider.
func withCard(routes *hosttest.Rtnetlink) *ward {
	w := healthy()
	c := w.kernel.CharDevs[7]
	c.DriverID = uint32(verbs.DriverBNXTRE)
	w.kernel.CharDevs[7] = c
	w.Route = routes.Route
	return w
}

func TestLossless(t *testing.T) {
	for name, c := range map[string]struct {
		change       func(*rtnetlink.DCB)
		text, remedy string
	}{
		"all is there": {func(*rtnetlink.DCB) {}, "dummy0 has PFC for priority 3, to which DSCP 26 leads, 50% of the link; the switch must have the same", ""},
		"strict priority": {func(d *rtnetlink.DCB) { d.Shared[3] = false },
			"dummy0 has PFC for priority 3, to which DSCP 26 leads; the switch must have the same", ""},
		"an older kernel": {func(d *rtnetlink.DCB) { d.Trust = nil },
			"dummy0 has PFC for priority 3, to which DSCP 26 leads, 50% of the link; the switch must have the same", ""},
		"no PFC": {func(d *rtnetlink.DCB) { d.PFC = 0 }, "dummy0 has PFC for no priority, so a full buffer drops packets",
			"dcb pfc set dev dummy0 prio-pfc all:off 3:on; the same on the switch"},
		"all PFC": {func(d *rtnetlink.DCB) { d.PFC = 255 }, "dummy0 has PFC for every priority, so RoCE's pauses stop all traffic",
			"dcb pfc set dev dummy0 prio-pfc all:off 3:on"},
		"no DSCP": {func(d *rtnetlink.DCB) { d.DSCP[26] = 4 }, "dummy0 has PFC for priority 3, and no DSCP leads to it: only packets with a VLAN tag are safe",
			"dcb app add dev dummy0 dscp-prio 26:3; then make programs send with that DSCP (traffic class 106)"},
		"no trust": {func(d *rtnetlink.DCB) { d.Trust[0] = rtnetlink.SelectPCP }, "dummy0 does not trust DSCP", "dcb apptrust set dev dummy0 order dscp"},
		"no share": {func(d *rtnetlink.DCB) { d.Share[3] = 0 }, "dummy0 gives priority 3, which is class 3, no share of the link",
			"dcb ets set dev dummy0 tc-bw 3:50, and the rest for others"},
	} {
		t.Run(name, func(t *testing.T) {
			d := bridged()
			c.change(d)
			w := withCard(&hosttest.Rtnetlink{DCB: map[string]*rtnetlink.DCB{"dummy0": d}})
			want := finding{"lossless", noted, c.text, c.remedy}
			if c.remedy == "" {
				want.level = fine
			}
			if got := findings(t, w, "lossless"); len(got) != 1 || got[0] != want {
				t.Errorf("%q\nwant %q", got, want)
			}
		})
	}
}

// findings returns the findings of one check.
func findings(t *testing.T, w *ward, check string) (all []finding) {
	t.Helper()
	w.Proc, w.Sys, w.Modules = hosttest.Tree(w.proc), hosttest.Tree(w.sys), hosttest.Tree(w.modules)
	p, err := examine(&w.Machine, "")
	if err != nil {
		t.Fatal(err)
	}
	defer p.dismiss()
	for _, c := range checks {
		if c.name == check {
			for _, f := range c.run(p) {
				f.check = check
				all = append(all, f)
			}
		}
	}
	return all
}

// TestNoDCB checks that a card's network device without DCB yields a note, unlike a
// virtual one.
func TestNoDCB(t *testing.T) {
	got := findings(t, withCard(new(hosttest.Rtnetlink)), "lossless")
	if len(got) != 1 || got[0].level != noted || !strings.HasPrefix(got[0].text, "dummy0 has no DCB, or does not show it") {
		t.Errorf("%q", got)
	}
	w := withCard(nil)
	w.Route = func(uint16, bool, []byte) ([][]byte, error) { return nil, syscall.EPERM }
	for check, want := range map[string]string{"lossless": "dummy0: DCB: operation not permitted", "ecn": "dummy0: its queues are not known: operation not permitted"} {
		if got = findings(t, w, check); len(got) != 1 || got[0].text != want || got[0].level != noted {
			t.Errorf("%q", got)
		}
	}
}

// TestCutReplies checks that truncated replies of the kernel cause no panic.
func TestCutReplies(t *testing.T) {
	d := bridged()
	for cut := range 400 {
		routes := &hosttest.Rtnetlink{DCB: map[string]*rtnetlink.DCB{"dummy0": d}, Cut: cut,
			Qdiscs: map[uint32][]rtnetlink.Qdisc{1: {{Kind: "fq_codel", ECN: true}, {Kind: "red", ECN: true}}}}
		m := host.Machine{Route: routes.Route}
		got, err := m.Route.DCB("dummy0")
		if err != nil || cut == 0 && (got.PFC != d.PFC || !got.HasDSCP[26] || got.Share != d.Share || len(got.Trust) != 1) {
			t.Errorf("%d: %+v, %v", cut, got, err)
		}
		if _, err := m.Route.Qdiscs(1); err != nil {
			t.Error(err)
		}
	}
}

func TestECN(t *testing.T) {
	for want, queues := range map[string][]rtnetlink.Qdisc{
		"dummy0 marks packets before it drops them: fq_codel, red":                                                  {{Kind: "mq"}, {Kind: "fq_codel", ECN: true}, {Kind: "fq_codel", ECN: true}, {Kind: "red", ECN: true}},
		"dummy0 has no kernel queue that marks packets; the queues of cards and switches are not visible from here": {{Kind: "red"}, {Kind: "pfifo_fast"}},
	} {
		routes := &hosttest.Rtnetlink{Qdiscs: map[uint32][]rtnetlink.Qdisc{1: queues, 9: {{Kind: "fq_codel", ECN: true}}}}
		if got := findings(t, withCard(routes), "ecn"); len(got) != 1 || got[0].level != fine || got[0].text != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}

// TestNoRoCE checks that iWARP and InfiniBand are not checked.
func TestNoRoCE(t *testing.T) {
	w := healthy()
	w.Route = func(uint16, bool, []byte) ([][]byte, error) { return nil, errors.New("nobody should ask") }
	w.kernel.Devices[1].Protocol = "iw"
	w.kernel.Ports[1].State = verbs.PortActive
	got, err := w.doctor(cli.Output{}, "")
	if err != nil || strings.Contains(got, "nobody should ask") {
		t.Errorf("%v\n%s", err, got)
	}
}
