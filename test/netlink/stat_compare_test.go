//go:build vm

package netlink

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// TestStatisticAsIproute2 compares the drivers' counters and refusals with rdma of two
// versions of iproute2. cmd/rdmalink's test of this name covers everything that no soft driver
// has.
func TestStatisticAsIproute2(t *testing.T) {
	for _, typ := range kit.LinkTypes() {
		name := "gvstat" + typ
		kit.Dummy(t, name)
		kit.Link(t, name, typ, name)
		holdObjects(t, name, typ == "rxe")
		s := resourceNumbers(t, name)
		fill := strings.NewReplacer("L", name, "M", fmt.Sprint(s.mrn), "Q", fmt.Sprint(s.lqpn))
		for _, line := range []string{
			"stat show link L/1", "stat qp show link L", "stat qp mode link L/1", "stat mode supported link L", "stat mr", "stat mr mrn M",
		} {
			if kit.OnKernel("6.12") { // it is the programs that print
				sameStatistic(t, fill.Replace(line))
			}
			sameStatistic(t, "-jp "+fill.Replace(line))
		}
		for _, line := range kit.FewElsewhere([]string{
			"stat show link L/2", "stat qp bind link L/1 lqpn Q", "stat qp unbind link L/1 cntn 1", "stat qp unbind link L/1 cntn 1 lqpn Q",
			"stat set link L/1 optional-counters nosuch", "stat unset link L/1 optional-counters",
			"stat qp set link L/1 auto pid,type on", "stat qp mode link L", "stat qp set link L/1 auto off",
		}, 2) {
			sameStatistic(t, fill.Replace(line))
		}
	}
	t.Run("all", allStatistics)
}

// allStatistics: rdma ends at the first link that counts nothing, we don't.
func allStatistics(t *testing.T) {
	theirs := func() string {
		var all strings.Builder
		for _, name := range strings.Fields(kit.Sh(t, "ls /sys/class/infiniband")) {
			if one := kit.NewerRDMA.Run(t, "stat show link "+name); one.Code == 0 {
				all.WriteString(one.Out)
			}
		}
		return all.String()
	}
	var got kit.Output
	want := theirs()
	kit.Until(t, "standing still", func() bool { // the kernel may still be ending connections of other tests
		before := want
		got = kit.Rdmalink(t, "stat")
		want = theirs()
		return before == want
	})
	if got != (kit.Output{Out: want}) || !strings.Contains(got.Out, "link gvstatrxe/1 \n    sent_pkts 0 \n") {
		t.Errorf("%+v, want %s", got, want)
	}
}

// TestStatisticOptional tests binding to optional counters, which neither older kernels know nor rdma of 6.1.
func TestStatisticOptional(t *testing.T) {
	kit.Dummy(t, "gvopt")
	kit.Link(t, "gvopt", "rxe", "gvopt")
	got := kit.Rdmalink(t, "stat qp set link gvopt/1 auto pid on optional-counters on")
	mode := kit.Rdmalink(t, "stat qp mode link gvopt")
	if kit.OnKernel("6.1") || kit.OnKernel("6.12") {
		if got.Code != 1 || !strings.Contains(got.Err, "older kernels, such as 6.12, can't do this for optional counters") || mode.Out != "link gvopt/1 mode qp auto off \n" {
			t.Errorf("%+v, then %+v", got, mode)
		}
		return
	}
	newer := kit.NewerRDMA.Run(t, "stat qp mode link gvopt")
	if got != (kit.Output{}) || mode.Out != "link gvopt/1 mode qp auto pid on optional-counters on \n" || newer.Out != mode.Out {
		t.Errorf("%+v, then %+v; of rdma %+v", got, mode, newer)
	}
	if got := kit.Rdmalink(t, "stat qp set link gvopt/1 auto off"); got != (kit.Output{}) {
		t.Errorf("%+v", got)
	}
}

// sameStatistic compares text with newer rdmas, JSON with 6.1.
func sameStatistic(t *testing.T, line string) {
	t.Helper()
	rdma := kit.NewerRDMA
	if strings.HasPrefix(line, "-j") {
		rdma = kit.DebianRDMA
	}
	same(rdma, t, line, kit.Rdmalink(t, line))
}

// statDifferences are those of statistic.
var statDifferences = []rdmaDifference{
	{
		regexp.MustCompile(`^(-\w+ )?stat .*\bmode\b`), "",
		"newer ones say this even of kernels that have no such thing, 6.1 never",
		without(" optional-counters off", ""), without(" optional-counters off", ""),
	},
}
