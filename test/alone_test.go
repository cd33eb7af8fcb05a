//go:build vm

package test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// What is in this file wants the machine before any other test made a network
// namespace; tests run in the order of their files.

// TestNldevExclusive: devices belong to one namespace, and the soft ones stay
// there, for their drivers can't take them from their users.
func TestNldevExclusive(t *testing.T) {
	noFabric(t)
	var here netlinkrdma.Client
	setNetnsMode(t, netlinkrdma.NetnsExclusive)
	t.Cleanup(func() { setNetnsMode(t, netlinkrdma.NetnsShared) })
	netns := otherNetns(t)
	there := netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: netns}}
	dummy(t, "gvalone")
	index := link(t, "gvrxealone", "rxe", "gvalone").Index
	if list := must(there.Devices())(t); len(list) != 0 {
		t.Errorf("there: %+v", list)
	}
	if _, err := there.Device(index); !errors.Is(err, netlinkrdma.ErrNotFound) {
		t.Error(err)
	}
	if err := here.MoveDevice(index, netns); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Error(err)
	}
	if _, err := here.Device(index); err != nil {
		t.Error(err)
	}
	noThreadIn(t, netns)
}

// setNetnsMode waits for namespaces that are on their way out.
func setNetnsMode(t *testing.T, mode netlinkrdma.NetnsMode) {
	t.Helper()
	var c netlinkrdma.Client
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := c.SetNetnsMode(mode)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if s := must(c.System())(t); s.NetnsMode != mode {
		t.Errorf("%+v, want %v", s, mode)
	}
}
