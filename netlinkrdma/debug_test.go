package netlinkrdma_test

import (
	"bytes"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/debug"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// TestDebug checks the lines that GOVERBS_DEBUG=netlink prints.
func TestDebug(t *testing.T) {
	k := kernel()
	k.System.Monitor = true
	k.Fail = map[uint16]error{abi.RDMA_NLDEV_CMD_SET: syscall.EPERM}
	c := netlinkrdma.Client{Kernel: k}
	calls := func() {
		c.Devices()
		c.Port(7, 2)
		c.AddLink("siw1", "siw", "dummy1")
		c.SetAdaptiveModeration(7, true)
		for range c.QPs(7, nil) {
		}
		c.SetOptionalCounters(7, 2)
		c.Subscribe()
		c.AddLink("a\nb", "siw", "dummy1")
	}
	var b bytes.Buffer
	restore := debug.Capture(&b, "netlink")
	calls()
	restore()
	calls()
	want := []string{
		`GET dump, 2 replies: ok`,
		`PORT_GET DEV_INDEX=7 PORT_INDEX=2, 1 replies: ok`,
		`NEWLINK DEV_NAME="siw1" LINK_TYPE="siw" NDEV_NAME="dummy1", 0 replies: ok`,
		`SET DEV_INDEX=7 DEV_DIM=1, 0 replies: EPERM`,
		`RES_QP_GET dump DEV_INDEX=7, \d replies: ok`,
		`STAT_SET DEV_INDEX=7 PORT_INDEX=2 STAT_HWCOUNTERS\[0\], \d replies: \w+`,
		`SYS_GET, 1 replies: ok`,
		`subscribe to MONITOR: ok`,
		`NEWLINK DEV_NAME="a\\nb" LINK_TYPE="siw" NDEV_NAME="dummy1", 0 replies: \w+`,
	}
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, line := range lines {
		if i >= len(want) || !regexp.MustCompile(`^goverbs: [0-9:.]+ netlink `+want[i]+` \([0-9.]+[µnm]?s\)$`).MatchString(line) {
			t.Errorf("line %d: %s", i, line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines, want %d", len(lines), len(want))
	}
}

// TestDebugNames checks that every command and every attribute that a call sends has a name.
func TestDebugNames(t *testing.T) {
	var b bytes.Buffer
	restore := debug.Capture(&b, "netlink")
	requests()
	restore()
	if m := regexp.MustCompile(` (command \d+| \d+=)`).FindString(b.String()); m != "" || b.Len() == 0 {
		t.Errorf("%q has no name", m)
	}
	for name, value := range nldevConstants(t, "RDMA_NLDEV_CMD_") {
		short := strings.TrimPrefix(name, "RDMA_NLDEV_CMD_")
		if got := netlinkrdma.CommandName(value); got != short {
			t.Errorf("%s is %s", name, got)
		}
	}
	if got := netlinkrdma.CommandName(999); got != "command 999" {
		t.Error(got)
	}
}
