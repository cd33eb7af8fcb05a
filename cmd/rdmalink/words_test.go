package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// runWords takes words as a line of a batch has them, two quotes for an empty one.
func runWords(t *testing.T, tool *tool, line string) result {
	t.Helper()
	list, err := splitLine(line)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	tool.Stdout, tool.Stderr = &stdout, &stderr
	return result{Code: tool.run(context.Background(), list), Out: stdout.String(), Err: stderr.String()}
}

// TestEmptyWords: a word that is empty, or has no name before the slash, as in
// scripts whose variable was never set, must not stand for all devices, nor end
// the line.
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
		tool, kernel := statReader()
		asked := len(kernel.Requests)
		if got := runWords(t, tool, line); got.Code != exitUsage || got.Out != "" {
			t.Errorf("%s: %+v", line, got)
		}
		if len(kernel.Requests) != asked && !strings.Contains(line, "resource show ''") {
			t.Errorf("%s reached the kernel", line)
		}
	}
}

// TestEndOfOptions: a word behind -- is none.
func TestEndOfOptions(t *testing.T) {
	for line, want := range map[string]string{
		"-- dev show -j":   "7: -j: ",
		"dev -- show -j":   "7: -j: ",
		"dev show -- -j":   "7: -j: ",
		"dev show -- -j -": "",
		"-j -- dev show":   `[{"ifindex":7,"ifname":"-j",`,
		"dev show -j --":   `[{"ifindex":7,"ifname":"-j",`,
	} {
		tool, kernel := devMachine()
		kernel.Devices = []netlinkrdma.Device{{Index: 7, Name: "-j", Ports: 1}}
		got := runWords(t, tool, line)
		if want == "" && got.Code != exitUsage || !strings.HasPrefix(got.Out, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
