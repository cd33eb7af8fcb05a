package rdma

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
)

// statTexts maps lines to their output on clitest.Statistics.
// TestStatisticAsIproute2 compares it with rdma's.
const (
	port1 = "link mlx5_0/1 \n    rx_write_requests 9223372036854775808 \n    out_of_buffer 0 \n    cc_rx_ce_pkts 3 \n"
	port2 = "link mlx5_0/2 \n    rx_write_requests 5 \n"

	counter4 = "link mlx5_0/1 cntn 4 qp-type RC pid 7 comm a reader \n    rx_write_requests 9 \n    out_of_buffer 1099511627776 \n    LQPN: <17,18>\n"
	counter5 = "link mlx5_0/1 cntn 5 pid 4194305 \n    LQPN: <8388608>\n"
	counter6 = "link mlx5_0/1 cntn 6 \n    rx_write_requests 1 \n    LQPN: <>\n"
	counter3 = "link mlx5_0/2 cntn 3 \n    rx_write_requests 7 \n    out_of_buffer 8 \n    LQPN: <178>\n"

	mrn1 = "dev mlx5_0 mrn 1 \n    rx_write_requests 6 \n    out_of_buffer 5 \n"
	mrn2 = "dev mlx5_0 mrn 2 \n"

	mode1 = "link mlx5_0/1 mode qp auto type,pid on optional-counters on \n"
	mode2 = "link mlx5_0/2 mode qp auto off \n"

	enabled   = "link mlx5_0/1 optional-counters \n    cc_rx_ce_pkts,\n    cc_rx_cnp_pkts\n"
	supported = "link mlx5_0/1 supported optional-counters \n    cc_rx_ce_pkts,\n    cc_tx_cnp_pkts,\n    cc_rx_cnp_pkts\n"
)

var statTexts = map[string]string{
	"statistic":                                      port1 + port2,
	"stat show":                                      port1 + port2,
	"stat s":                                         port1 + port2,
	"st list link":                                   port1 + port2,
	"stat show link mlx5_0":                          port1 + port2,
	"-p stat show link mlx5_0/":                      port1 + port2,
	"stat show link mlx5_0/2":                        port2,
	"-o stat s l mlx5_0/2":                           "link mlx5_0/2 \\    rx_write_requests 5 \n",
	"stat qp":                                        counter4 + counter5 + counter6 + counter3,
	"stat qp show":                                   counter4 + counter5 + counter6 + counter3,
	"-d stat qp s link":                              counter4 + counter5 + counter6 + counter3,
	"stat q l l mlx5_0":                              counter4 + counter5 + counter6 + counter3,
	"stat qp show link mlx5_0/2":                     counter3,
	"stat qp show link mlx5_0/-":                     "",
	"stat qp show link mlx5_0 cntn 5":                counter5,
	"-o stat qp show link mlx5_0 cntn 4":             strings.ReplaceAll(strings.TrimSuffix(counter4, "\n"), "\n", "\\") + "\n",
	"stat qp show link mlx5_0 cntn 3,5-6":            counter5 + counter6 + counter3,
	"stat qp show link mlx5_0 lqpn 18":               counter4,
	"stat qp show link mlx5_0 lqpn 100-200":          counter3,
	"stat qp show link mlx5_0 lqpn 99":               "",
	"stat qp show link mlx5_0 pid 4194305":           counter5,
	"stat qp show link mlx5_0/1 pid 7 qp-type ud,rc": counter4,
	"stat qp show link mlx5_0 qp-type smi":           "",
	"stat mr":                                        mrn1 + mrn2,
	"stat mr list":                                   mrn1 + mrn2,
	"stat show mr":                                   mrn1 + mrn2,
	"stat m":                                         mrn1 + mrn2,
	"stat mr mrn 2":                                  mrn2,
	"stat show mr mrn 2":                             mrn2,
	"stat mr show dev mlx5_0 mrn 1":                  mrn1,
	"stat mr mrn 77":                                 "",
	"stat mr mrn 0-1":                                mrn1,
	"stat qp mode":                                   mode1 + mode2,
	"stat qp mode link":                              mode1 + mode2,
	"stat qp mode link mlx5_0":                       mode1 + mode2,
	"stat qp mode link mlx5_0/2":                     mode2,
	"stat mode":                                      enabled,
	"stat mode show":                                 enabled,
	"stat mode s mlx5_0/1":                           enabled,
	"stat mode link mlx5_0":                          enabled,
	"stat mode link mlx5_0/2":                        "",
	"stat mode supported":                            supported,
	"stat mode supported link mlx5_0/1":              supported,
	"-o stat mode link mlx5_0":                       "link mlx5_0/1 optional-counters \\    cc_rx_ce_pkts,\\    cc_rx_cnp_pkts\n",
	"-j stat":                                        `[{"ifname":"mlx5_0","port":1,"rx_write_requests":9223372036854775808,"out_of_buffer":0,"cc_rx_ce_pkts":3},{"ifname":"mlx5_0","port":2,"rx_write_requests":5}]` + "\n",
	"-jp stat show link mlx5_0/2":                    "[ {\n        \"ifname\": \"mlx5_0\",\n        \"port\": 2,\n        \"rx_write_requests\": 5\n    } ]\n",
	"-j stat qp show link mlx5_0 cntn 4,6":           `[{"ifindex":7,"ifname":"mlx5_0","port":1,"cntn":4,"qp-type":"RC","pid":7,"comm":"a reader","rx_write_requests":9,"out_of_buffer":1099511627776,"lqpn":[17,18]},{"ifindex":7,"ifname":"mlx5_0","port":1,"cntn":6,"rx_write_requests":1,"lqpn":[]}]` + "\n",
	"-jp stat qp show link mlx5_0 cntn 6":            "[ {\n        \"ifindex\": 7,\n        \"ifname\": \"mlx5_0\",\n        \"port\": 1,\n        \"cntn\": 6,\n        \"rx_write_requests\": 1,\n        \"lqpn\": [ ]\n    } ]\n",
	"-jp stat qp show link mlx5_0 cntn 5":            "[ {\n        \"ifindex\": 7,\n        \"ifname\": \"mlx5_0\",\n        \"port\": 1,\n        \"cntn\": 5,\n        \"pid\": 4194305,\n        \"lqpn\": [ 8388608 ]\n    } ]\n",
	"-j stat mr":                                     `[{"ifindex":7,"ifname":"mlx5_0","mrn":1,"rx_write_requests":6,"out_of_buffer":5},{"ifindex":7,"ifname":"mlx5_0","mrn":2}]` + "\n",
	"-j stat qp mode link mlx5_0":                    `[{"ifindex":7,"ifname":"mlx5_0","port":1,"mode":"qp auto type,pid on optional-counters on"},{"ifindex":7,"ifname":"mlx5_0","port":2,"mode":"qp auto off"}]` + "\n",
	"-j stat mode link mlx5_0":                       `[{"ifname":"mlx5_0","port":1,"optional-counters":["cc_rx_ce_pkts","cc_rx_cnp_pkts"]}]` + "\n",
	"-jp stat mode supported link mlx5_0":            "[ {\n        \"ifname\": \"mlx5_0\",\n        \"port\": 1,\n        \"supported optional-counters\": [ \"cc_rx_ce_pkts\",\"cc_tx_cnp_pkts\",\"cc_rx_cnp_pkts\" ]\n    } ]\n",
	"-j stat mode link mlx5_0/2":                     "[]\n",
}

func TestStatistic(t *testing.T) {
	for line, want := range statTexts {
		tool, _ := clitest.StatisticsOfReader()
		if diff := cmp.Diff(clitest.Result{Out: want}, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// TestStatisticModes checks a kernel that does not report optional counters, and
// one with all of them off.
func TestStatisticModes(t *testing.T) {
	for want, o := range map[string]netlinkrdma.Opt[bool]{
		"link mlx5_0/1 mode qp auto pid on \n":                       {},
		"link mlx5_0/1 mode qp auto pid on optional-counters off \n": clitest.Opt(false),
	} {
		tool, kernel := clitest.StatisticsOfReader()
		kernel.Statistics[nltest.PortID{Device: 7, Port: 1}] = nltest.Statistics{
			Setting: netlinkrdma.CounterSetting{Mode: netlinkrdma.CountersAuto, By: netlinkrdma.CountByPID, Optional: o},
		}
		if got := runLine(tool, "stat qp mode link mlx5_0/1", &hosttest.Netdevs{}); got.Out != want {
			t.Errorf("%+v, want %q", got, want)
		}
	}
}

// statSet is a line that changes a setting, and the output of another line
// afterwards.
type statSet struct{ line, show, want, unlike string }

const auto2 = "link mlx5_0/2 mode qp auto "

// statSets: where rdma does not do the same, the last says why.
var statSets = []statSet{
	{"stat qp set link mlx5_0/2 auto type on", "stat qp mode link mlx5_0/2", auto2 + "type on optional-counters off \n", ""},
	{"stat qp set l mlx5_0/2 au pid,type on optional-counters on", "stat qp mode link mlx5_0/2", auto2 + "type,pid on optional-counters on \n", ""},
	{"stat qp se link mlx5_0/2 auto pid on opt off", "stat qp mode link mlx5_0/2", auto2 + "pid on optional-counters off \n", ""},
	{"stat qp set link mlx5_0/1 auto off", "stat qp mode link mlx5_0/1", "link mlx5_0/1 mode qp auto off \n", ""},
	{"stat qp set link mlx5_0 auto off optional-counters off", "stat qp mode link mlx5_0", strings.ReplaceAll(mode2, "/2", "/1") + mode2, "it sets the first port only"},
	{"stat qp bind link mlx5_0/2 lqpn 17", "stat qp show link mlx5_0/2 lqpn 17", "link mlx5_0/2 cntn 1002 \n    LQPN: <17>\n", ""},
	{"stat qp bind link mlx5_0/2 lqpn 17 cntn 3", "stat qp show link mlx5_0/2", strings.Replace(counter3, "178", "178,17", 1), ""},
	{"stat qp b l mlx5_0/2 cntn 3 lqpn 19", "stat qp show link mlx5_0/2", strings.Replace(counter3, "178", "178,19", 1), "it wants lqpn first"},
	{"stat qp unbind link mlx5_0/2 cntn 3 lqpn 178", "stat qp show link mlx5_0/2", "", ""},
	{"stat qp unbind link mlx5_0/2 cntn 3", "stat qp show link mlx5_0/2", "", ""},
	{"stat set link mlx5_0/1 optional-counters cc_tx_cnp_pkts", "stat mode", "link mlx5_0/1 optional-counters \n    cc_tx_cnp_pkts\n", ""},
	{"stat se l mlx5_0/1 o cc_tx_cnp_pkts,cc_rx_ce_pkts", "stat mode", "link mlx5_0/1 optional-counters \n    cc_rx_ce_pkts,\n    cc_tx_cnp_pkts\n", ""},
	{"stat unset link mlx5_0/1 optional-counters", "stat mode", "", ""},
	{"stat u l mlx5_0/1 opt", "stat mode", "", ""},
}

// prepare puts the kernel into a mode that allows it.
func (s statSet) prepare(kernel *nltest.Kernel) {
	if strings.Contains(s.line, " au") { // nothing may be bound
		o := kernel.Objects[7]
		o.QPCounter = nil
		kernel.Objects[7] = o
	}
	if strings.Contains(s.line, "unbind") {
		port2 := nltest.PortID{Device: 7, Port: 2}
		stat := kernel.Statistics[port2]
		stat.Setting.Mode = netlinkrdma.CountersManual
		kernel.Statistics[port2] = stat
	}
}

func TestStatisticSets(t *testing.T) {
	for _, test := range statSets {
		tool, kernel := clitest.StatisticsOfReader()
		test.prepare(kernel)
		if diff := cmp.Diff(clitest.Result{}, runLine(tool, test.line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.line, diff)
		}
		if diff := cmp.Diff(clitest.Result{Out: test.want}, runLine(tool, test.show, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s; %s (-want +got):\n%s", test.line, test.show, diff)
		}
	}
}

func TestStatisticErrors(t *testing.T) {
	const (
		usage     = "\nUsage: rdmalink statistic "
		none      = ": no such device or port, or the driver has no such statistics: invalid argument\n"
		bind      = usage + "qp bind link DEV/PORT lqpn LQPN [cntn CNTN] (more: rdmalink statistic qp bind link -h)\n"
		set       = usage + "set link DEV/PORT optional-counters NAME[,NAME]... (more: rdmalink statistic set link -h)\n"
		auto      = usage + "qp set link DEV[/PORT] auto {off | {type | pid | type,pid} on} [optional-counters {on | off}] (more: rdmalink statistic qp set link -h)\n"
		autoWords = "expected one of off, type, pid, type,pid"
	)
	for line, want := range map[string]clitest.Result{
		"stat frob":                                                 {Code: 2, Err: "\"frob\": expected one of show, qp, mr, mode, set, unset, help" + usage + "[OPTIONS] COMMAND (more: rdmalink statistic -h)\n"},
		"stat show mlx5_0":                                          {Code: 2, Err: "\"mlx5_0\": expected one of link, mr, help" + usage + "show [OPTIONS] COMMAND (more: rdmalink statistic show -h)\n"},
		"stat show link mlx5_0 1":                                   {Code: 2, Err: "unexpected argument \"1\"" + usage + "show link [DEV[/PORT]] (more: rdmalink statistic show link -h)\n"},
		"stat show link mlx5_0/-":                                   {Code: 2, Err: "\"mlx5_0/-\": the port must be a number from 1" + usage + "show link [DEV[/PORT]] (more: rdmalink statistic show link -h)\n"},
		"stat show link mlx5_0/3":                                   {Code: 1, Err: "mlx5_0 has no port 3, it has 2\n"},
		"stat show link mlx6":                                       {Code: 1, Err: "find RDMA device \"mlx6\": no such RDMA device: there are siw0, mlx5_0\n"},
		"stat show link siw0":                                       {Code: 1, Err: "read the counters of port 1 of siw0" + none},
		"-j stat show link siw0/1":                                  {Code: 1, Out: "", Err: "read the counters of port 1 of siw0" + none},
		"stat mode link siw0":                                       {Code: 1, Err: "list the counters of port 1 of siw0" + none},
		"stat qp show link mlx5_0 pid":                              {Code: 2, Err: "expected a value for pid" + usage + "qp show link [DEV[/PORT] [FILTER VALUE]...] (more: rdmalink statistic qp show link -h)\n"},
		"stat qp show link mlx5_0 dev 1":                            {Code: 2, Err: "\"dev\": expected one of cntn, lqpn, pid, qp-type" + usage + "qp show link [DEV[/PORT] [FILTER VALUE]...] (more: rdmalink statistic qp show link -h)\n"},
		"stat qp show link mlx5_0/3":                                {Code: 1, Err: "mlx5_0 has no port 3, it has 2\n"},
		"stat mr frob":                                              {Code: 2, Err: "\"frob\": expected one of dev, mrn" + usage + "mr [show] [dev DEV] [mrn MRN] (more: rdmalink statistic mr -h)\n"},
		"stat qp set":                                               {Code: 2, Err: "expected one of link, help" + usage + "qp set [OPTIONS] COMMAND (more: rdmalink statistic qp set -h)\n"},
		"stat qp set link":                                          {Code: 2, Err: "expected DEV/PORT" + auto},
		"stat qp set link mlx5_0/x":                                 {Code: 2, Err: "\"mlx5_0/x\": the port must be a number from 1" + auto},
		"stat qp set link mlx5_0":                                   {Code: 2, Err: "expected auto" + auto},
		"stat qp set link mlx5_0 auto":                              {Code: 2, Err: autoWords + auto},
		"stat qp set link mlx5_0 auto cpu":                          {Code: 2, Err: "\"cpu\": " + autoWords + auto},
		"stat qp set link mlx5_0 auto pid":                          {Code: 2, Err: "expected on" + auto},
		"stat qp set link mlx5_0 auto off x":                        {Code: 2, Err: "\"x\": expected optional-counters" + auto},
		"stat qp set link mlx5_0 auto pid on optional-counters":     {Code: 2, Err: "expected one of on, off" + auto},
		"stat qp set link mlx5_0 auto pid on optional-counters o":   {Code: 2, Err: "\"o\": expected one of on, off" + auto},
		"stat qp set link mlx5_0 auto off optional-counters off no": {Code: 2, Err: "unexpected argument \"no\"" + auto},
		"stat qp set link mlx5_0/2 auto pid on":                     {Code: 1, Err: "set automatic counters of port 2 of mlx5_0 by \"pid\": device or resource busy: unbind the QPs first, or turn the other mode off\n"},
		"stat qp bind link mlx5_0 lqpn 17":                          {Code: 2, Err: "\"mlx5_0\": expected the port too: mlx5_0/1" + bind},
		"stat qp bind link mlx5_0/2":                                {Code: 2, Err: "expected lqpn" + bind},
		"stat qp bind link mlx5_0/2 cntn 3":                         {Code: 2, Err: "expected lqpn" + bind},
		"stat qp bind link mlx5_0/2 lqpn 17-18":                     {Code: 2, Err: "lqpn 17-18: expected one number, at most 4294967295" + bind},
		"stat qp bind link mlx5_0/2 lqpn 17 cntn 1,2":               {Code: 2, Err: "cntn 1,2: expected one number, at most 4294967295" + bind},
		"stat qp bind link mlx5_0/2 lqpn 4294967313":                {Code: 2, Err: "lqpn 4294967313: expected one number, at most 4294967295" + bind},
		"stat qp bind link mlx5_0/2 pid 17":                         {Code: 2, Err: "\"pid\": expected one of lqpn, cntn" + bind},
		"stat qp bind link mlx5_0/2 lqpn 99":                        {Code: 1, Err: "bind QP 99 of port 2 of mlx5_0 to a counter: no such file or directory: no such QP, or no such counter\n"},
		"stat qp unbind link mlx5_0/2 cntn 99":                      {Code: 1, Err: "find QP counter 99 of mlx5_0: no such object: no such file or directory\n"},
		"stat set link mlx5_0/1":                                    {Code: 2, Err: "expected optional-counters" + set},
		"stat set link mlx5_0/1 optional-counters":                  {Code: 2, Err: "expected names of optional counters (rdmalink statistic mode supported lists them)" + set},
		"stat set link mlx5_0/1 optional-counters ,":                {Code: 2, Err: "\",\": expected names of optional counters (rdmalink statistic mode supported lists them)" + set},
		"stat set link mlx5_0/1 optional-counters a b":              {Code: 2, Err: "unexpected argument \"b\"" + set},
		"stat set link mlx5_0/1 optional-counters a":                {Code: 1, Err: "set optional counters of port 1 of mlx5_0 to [a]: no such object: optional counter \"a\" (available: cc_rx_ce_pkts, cc_tx_cnp_pkts, cc_rx_cnp_pkts)\n"},
		"stat unset link mlx5_0/1 optional-counters a":              {Code: 2, Err: "unexpected argument \"a\"" + usage + "unset link DEV/PORT optional-counters (more: rdmalink statistic unset link -h)\n"},
	} {
		tool, _ := clitest.StatisticsOfReader()
		want.Err = "rdmalink: " + want.Err
		if diff := cmp.Diff(want, runLine(tool, line, &hosttest.Netdevs{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// TestStatisticPermission checks that errors name the missing privilege.
func TestStatisticPermission(t *testing.T) {
	for _, line := range []string{
		"stat qp set link mlx5_0/2 auto type on", "stat qp bind link mlx5_0/2 lqpn 17", "stat qp bind link mlx5_0/2 lqpn 17 cntn 3",
		"stat qp unbind link mlx5_0/2 cntn 3", "stat set link mlx5_0/1 optional-counters cc_rx_ce_pkts", "stat unset link mlx5_0/1 optional-counters",
	} {
		tool, kernel := clitest.StatisticsOfReader()
		kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_STAT_SET: syscall.EPERM, abi.RDMA_NLDEV_CMD_STAT_DEL: syscall.EPERM}
		if got := runLine(tool, line, &hosttest.Netdevs{}); got.Code != 1 || got.Out != "" || !strings.Contains(got.Err, "needs CAP_NET_ADMIN") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// TestStatisticFails checks that JSON stays valid, and that a device that is
// removed is no error unless it was named.
func TestStatisticFails(t *testing.T) {
	lines := []string{"-j stat", "-j stat mode", "-j stat qp mode", "-j stat qp", "-j stat mr"}
	for _, line := range lines {
		for errno, code := range map[syscall.Errno]int{syscall.EPERM: 1, syscall.EINVAL: 0} {
			want := "[]\n"
			if code != 0 {
				want = "" // not as if there were none
			}
			tool, kernel := clitest.StatisticsOfReader()
			kernel.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_STAT_GET: errno, abi.RDMA_NLDEV_CMD_STAT_GET_STATUS: errno}
			if got := runLine(tool, line, &hosttest.Netdevs{}); got.Code != code || got.Out != want {
				t.Errorf("%s, errno %d: %+v", line, errno, got)
			}
		}
		tool, _ := clitest.StatisticsOfReader()
		tool.Stdout, tool.Stderr = brokenPipe{}, &strings.Builder{}
		if code := tool.Run(context.Background(), root(), strings.Fields(line)); code != cli.ExitFailed {
			t.Errorf("%s: exit code %d when nothing can be printed", line, code)
		}
	}
}

func TestStatisticHelp(t *testing.T) {
	for line, want := range map[string]string{
		"stat help":                "Usage: rdmalink statistic [",
		"stat show help":           "Usage: rdmalink statistic show [",
		"stat qp help":             "Usage: rdmalink statistic qp [",
		"stat qp show help link":   "Usage: rdmalink statistic qp show link [DEV[/PORT] [FILTER",
		"stat qp mode help":        "Usage: rdmalink statistic qp mode [",
		"stat qp set h":            "Usage: rdmalink statistic qp set [",
		"stat qp bind help":        "Usage: rdmalink statistic qp bind [",
		"stat qp unbind help link": "Usage: rdmalink statistic qp unbind link DEV/PORT cntn",
		"stat mr help":             "Usage: rdmalink statistic mr [show]",
		"stat show mr h":           "Usage: rdmalink statistic show mr [show]",
		"stat mode help":           "Usage: rdmalink statistic mode [",
		"stat mode supported help": "Usage: rdmalink statistic mode supported [",
		"stat set help":            "Usage: rdmalink statistic set [",
		"stat unset help":          "Usage: rdmalink statistic unset [",
		"monitor help":             "Usage: rdmalink monitor",
	} {
		tool, _ := clitest.StatisticsOfReader()
		if got := runLine(tool, line, &hosttest.Netdevs{}); got.Code != 0 || got.Err != "" || !strings.HasPrefix(got.Out, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// statDifferences are where rdma is wrong, or can less. docs/rdma-differences.md
// says the same.
var statDifferences = []struct {
	line   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^(-\w+ )?\w+( s| show| list| mode| qp mode| mode show| mode supported)?( link)?$`), "it ends at siw0, which counts nothing"},
	{regexp.MustCompile(`lqpn`), "it shows a counter of which all QPs pass, and one without QPs"},
	{regexp.MustCompile(`qp-type smi`), "to it, a counter that has no type is of type SMI"},
	{regexp.MustCompile(`mr (show|list)`), "it takes the word for a filter"},
}

func thisProcess() (*cli.Tool, *nltest.Kernel) { return clitest.Statistics(uint32(os.Getpid())) }

// TestStatisticAsIproute2 compares the output with rdma's.
func TestStatisticAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for line := range statTexts {
		if strings.HasPrefix(line, "-o") && r.version.before(6, 8) {
			continue
		}
		tool, kernel := thisProcess()
		want, failed := r.run(t, kernel, line)
		got := runLine(tool, line, &hosttest.Netdevs{})
		if !strings.Contains(want, "optional-counters o") { // those before 6.15
			got.Out = strings.ReplaceAll(got.Out, " on optional-counters on", " on")
		}
		diff := cmp.Diff(want, got.Out)
		i := slices.IndexFunc(statDifferences, func(d struct {
			line   *regexp.Regexp
			reason string
		}) bool {
			return d.line.MatchString(line)
		})
		switch {
		case i >= 0 && diff == "":
			t.Errorf("%s: rdma prints the same; no longer true: %s", line, statDifferences[i].reason)
		case i < 0 && (diff != "" || failed):
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", line, failed, diff)
		}
	}
}

// TestStatisticSetsAsIproute2 compares the kernel requests that change something
// with rdma's.
func TestStatisticSetsAsIproute2(t *testing.T) {
	r := newIproute2(t)
	for _, test := range statSets {
		if test.unlike != "" || strings.Contains(test.line, " au") && strings.Contains(test.line, "opt") && r.version.before(6, 15) {
			continue
		}
		tool, kernel := thisProcess()
		test.prepare(kernel)
		runLine(tool, test.line, &hosttest.Netdevs{})
		got := changes(kernel)
		_, kernel = thisProcess()
		test.prepare(kernel)
		_, failed := r.run(t, kernel, test.line)
		if diff := cmp.Diff(changes(kernel), got, cmpopts.EquateEmpty()); diff != "" || failed || len(got) == 0 {
			t.Errorf("%s, failed %t (-iproute2 +rdmalink):\n%s", test.line, failed, diff)
		}
	}
}

// changes returns the requests that change something, with their attributes in
// order and without an attribute that is off, which is the default.
func changes(kernel *nltest.Kernel) []netlinkrdma.Request {
	all := slices.Clone(kernel.Requests)
	all = slices.DeleteFunc(all, func(r netlinkrdma.Request) bool {
		return r.Op != abi.RDMA_NLDEV_CMD_STAT_SET && r.Op != abi.RDMA_NLDEV_CMD_STAT_DEL
	})
	for i := range all {
		all[i].Attrs = slices.DeleteFunc(slices.Clone(all[i].Attrs), func(a netlinkrdma.Attr) bool {
			return a.Type == abi.RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED && bytes.Equal(a.Value, []byte{0})
		})
		slices.SortFunc(all[i].Attrs, func(a, b netlinkrdma.Attr) int { return int(a.Type&0x3fff) - int(b.Type&0x3fff) })
	}
	return all
}
