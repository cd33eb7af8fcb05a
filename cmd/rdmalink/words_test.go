package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli/clitest"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
	"github.com/goverbs/goverbs/internal/addlink"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// runWords splits a line as a batch does, where two quotes are an empty word.
func runWords(t *testing.T, tool *cli.Tool, line string) clitest.Result {
	t.Helper()
	list, err := cli.SplitLine(line)
	if err != nil {
		t.Fatal(err)
	}
	return clitest.RunWords(tool, root(), list)
}

// TestEmptyWords checks that a word is a usage error if it is empty or has no name before
// the slash. Unset variables of scripts cause such words. They must not mean all devices,
// nor end the line.
func TestEmptyWords(t *testing.T) {
	for _, line := range []string{
		"''", "dev ''", "dev show ''", "dev set '' name b", "link ''", "link show ''", "show ''", "show /1", "show /", "del ''",
		"resource ''", "resource show ''", "resource show '' pid 7", "resource show qp ''", "resource show qp '' pid 7", "resource show qp pid 7 '' x",
		"resource show qp link ''", "resource show qp link /1", "resource show qp link /-", "resource show qp link /", "resource show mr dev ''",
		"statistic ''", "statistic show ''", "statistic show link ''", "statistic link /1", "statistic mr ''", "statistic mr show ''", "statistic mr '' x",
		"statistic qp show link ''", "statistic qp show link '' cntn 1", "statistic qp mode link /2", "statistic mode link /1",
		"statistic qp set link /1 auto off", "statistic qp set link '' auto off", "statistic qp set link mlx5_0/1 auto off ''",
		"statistic set link /1 optional-counters cc_rx_ce_pkts", "statistic unset link /1 optional-counters", "statistic unset link mlx5_0/1 optional-counters ''",
		"statistic qp bind link /1 lqpn 1", "statistic qp bind link mlx5_0/1 '' lqpn 1",
		"system ''", "system show ''", "system set netns shared ''", "devinfo ''", "doctor ''", "monitor ''", "watch ''", "help ''", "version ''", "man ''",
		"-b ''", "--batch= dev",
	} {
		tool, kernel := clitest.StatisticsOfReader()
		asked := len(kernel.Requests)
		if got := runWords(t, tool, line); got.Code != cli.ExitUsage || got.Out != "" {
			t.Errorf("%s: %+v", line, got)
		}
		if len(kernel.Requests) != asked && !strings.Contains(line, "resource show ''") {
			t.Errorf("%s reached the kernel", line)
		}
	}
}

// TestEndOfOptions checks that words after -- are not options.
func TestEndOfOptions(t *testing.T) {
	for line, want := range map[string]string{
		"-- dev show -j":   "7: -j: ",
		"dev -- show -j":   "7: -j: ",
		"dev show -- -j":   "7: -j: ",
		"dev show -- -j -": "",
		"-j -- dev show":   `[{"ifindex":7,"ifname":"-j",`,
		"dev show -j --":   `[{"ifindex":7,"ifname":"-j",`,
	} {
		tool, kernel := clitest.Devices()
		kernel.Devices = []netlinkrdma.Device{{Index: 7, Name: "-j", Ports: 1}}
		got := runWords(t, tool, line)
		if want == "" && got.Code != cli.ExitUsage || !strings.HasPrefix(got.Out, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// FuzzCommandLine runs arbitrary words, and checks that nothing panics, that an
// error has a text and its exit code, that a usage error prints nothing else, and
// that the output of -j is JSON.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"dev", "-jp dev show siw0", "-d dev", "dev set siw0 name \xff", "link show siw0/1", "show /1", "-j resource", "-jp res show qp lqpn 1-20 state rts,err",
		"-dd -j res show cm_id link mlx5_0/- src-port 0x1c06", "-r res show mr", "res set frmr_pools dev siw0 pinned 1:2:3:0 7", "statistic mr mrn 1",
		"stat qp set link siw0/1 auto type,pid on optional-counters on", "stat qp bind link mlx5_0/1 lqpn 17 cntn 9", "stat set link siw0/1 optional-counters a,,b",
		"-j system", "system set netns shared", "add siw1 type siw netdev dummy0", "del siw0", "devinfo -v", "-j doctor", "completion words -- dev set \"", "help stat qp", "-- dev -j", "-V", "-h",
	} {
		f.Add(strings.ReplaceAll(line, " ", "|"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "|")
		path, _, _ := cli.FollowWords(root(), args)
		isBatch := func(word string) bool { return strings.HasPrefix(word, "-") && strings.Contains(word, "b") }
		if c := path[len(path)-1]; c.Raw && c.Name() != "words" || slices.ContainsFunc(args, isBatch) {
			t.Skip("it reads files, or talks to peers")
		}
		for _, machine := range []func() *cli.Tool{
			func() *cli.Tool { t, _ := clitest.StatisticsOfReader(); return t },
			func() *cli.Tool { t, _ := clitest.Resources(); return t },
			func() *cli.Tool { t, _, _ := clitest.Informed(); return t },
		} {
			fuzzedLine(t, machine(), args)
		}
	})
}

func fuzzedLine(t *testing.T, tool *cli.Tool, args []string) {
	var stdout, stderr bytes.Buffer
	tool.Stdin, tool.Stdout, tool.Stderr = strings.NewReader(""), &stdout, &stderr
	tool.Net, tool.Open, tool.OpenCM = &hosttest.Netdevs{All: []addlink.Netdev{hosttest.Loopback, hosttest.Dummy0}}, hosttest.Opens(), func() error { return nil }
	tool.Proc, tool.Sys, tool.Modules = hosttest.Tree(nil), hosttest.Tree(nil), hosttest.Tree(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // to end waits
	code := tool.Run(ctx, root(), args)
	if code < cli.ExitOK || code > cli.ExitUsage || code != cli.ExitOK && stderr.Len() == 0 || code == cli.ExitUsage && stdout.Len() > 0 {
		t.Fatalf("%q: %d\n%s%s", args, code, stdout.String(), stderr.String())
	}
	if tool.JSON && strings.HasPrefix(stdout.String(), "[") && !json.Valid(stdout.Bytes()) {
		t.Fatalf("%q: %s", args, stdout.String())
	}
}
