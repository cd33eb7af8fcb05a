//go:build vm

package netlink

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
)

// TestNldevFRMRPools checks that no soft driver has pools; a kernel that knows of them lists none.
func TestNldevFRMRPools(t *testing.T) {
	kit.Dummy(t, "gvpools")
	d := kit.Link(t, "gvpools", "rxe", "gvpools")
	var c netlinkrdma.Client
	for pool, err := range c.FRMRPools(d.Index, &netlinkrdma.ListOptions{DriverDetails: true}) {
		if kit.SinceLinux7() || !errors.Is(err, netlinkrdma.ErrNoFRMRPools) {
			t.Errorf("%+v, %v", pool, err)
		}
	}
	if err := c.SetFRMRAging(d.Index, time.Minute); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	if err := c.PinFRMR(d.Index, netlinkrdma.FRMRPoolKey{DMABlocks: 1}, 1); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	got := kit.Rdmalink(t, "-j resource show frmr_pools dev gvpools")
	if want := (kit.Output{Out: "[]\n"}); kit.SinceLinux7() && got != want || !kit.SinceLinux7() && (got.Out != "" || got.Code != 1) {
		t.Errorf("%+v", got)
	}
}
