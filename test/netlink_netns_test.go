//go:build vm

package test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// otherNetns makes a network namespace that goes away with the test.
func otherNetns(t *testing.T) *os.File {
	t.Helper()
	sh(t, "ip netns add gvother")
	t.Cleanup(func() { sh(t, "ip netns del gvother") })
	f := must(os.Open("/run/netns/gvother"))(t)
	closeLater(t, f)
	return f
}

// noThreadIn fails when a thread of this process stays in the namespace; one
// that was there may not have ended yet.
func noThreadIn(t *testing.T, netns *os.File) {
	t.Helper()
	var st unix.Stat_t
	change(t, unix.Fstat(int(netns.Fd()), &st))
	there := fmt.Sprintf("net:[%d]", st.Ino)
	until(t, "without a thread in the namespace", func() bool {
		tasks := must(filepath.Glob("/proc/self/task/*/ns/net"))(t)
		if len(tasks) == 0 {
			t.Fatal("no threads")
		}
		return !slices.ContainsFunc(tasks, func(task string) bool {
			where, err := os.Readlink(task)
			return err == nil && where == there
		})
	})
}

// subscribeThere gives what fails if an event of this device was heard there, for in
// shared mode all devices belong to the first namespace. There it is heard, and the
// kernel tells all at once.
func subscribeThere(t *testing.T, there netlinkrdma.Client) func(device string) {
	t.Helper()
	deaf, err := there.Subscribe()
	if onKernel("6.1") {
		return func(string) {}
	}
	change(t, err)
	closeLater(t, deaf)
	events := must(new(netlinkrdma.Client).Subscribe())(t)
	closeLater(t, events)
	return func(device string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for must(events.Next(ctx))(t).DeviceName != device {
		}
		soon, stop := context.WithTimeout(ctx, 10*time.Millisecond)
		defer stop()
		if e, err := deaf.Next(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("heard %+v, %v", e, err)
		}
	}
}

// TestNldevNetns looks at the same devices from two namespaces, in shared mode.
func TestNldevNetns(t *testing.T) {
	netns := otherNetns(t)
	here, there := netlinkrdma.Client{}, netlinkrdma.Client{Kernel: netlinkrdma.Netns{File: netns}}
	dummy(t, "gvhereonly")
	index := link(t, "gvrxehere", "rxe", "gvhereonly").Index
	if diff := cmp.Diff(must(here.Devices())(t), must(there.Devices())(t)); diff != "" {
		t.Errorf("(-here +there):\n%s", diff)
	}
	if diff := cmp.Diff(dumped(t, here.DumpPD(index, nil)), dumped(t, there.DumpPD(index, nil))); diff != "" {
		t.Errorf("(-here +there):\n%s", diff)
	}
	if a, b := must(here.Port(index, 1))(t), must(there.Port(index, 1))(t); a.NetdevName != "gvhereonly" || b.NetdevIndex != 0 {
		t.Errorf("here %+v, there %+v", a, b)
	}
	deaf := subscribeThere(t, there)
	sh(t, "ip -n gvother link add gvthereonly type dummy")
	change(t, there.AddLink("gvrxethere", "rxe", "gvthereonly"))
	deaf("gvrxethere")
	d := must(here.DeviceByName("gvrxethere"))(t)
	if a, b := must(here.Port(d.Index, 1))(t), must(there.Port(d.Index, 1))(t); a.NetdevIndex != 0 || b.NetdevName != "gvthereonly" {
		t.Errorf("here %+v, there %+v", a, b)
	}
	change(t, there.DeleteLink(d.Index))
	if err := here.MoveDevice(index, netns); !errors.Is(err, syscall.EOPNOTSUPP) || !strings.Contains(err.Error(), "in shared mode") {
		t.Error(err)
	}
	if err := here.SetNetnsMode(netlinkrdma.NetnsExclusive); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("though there is a namespace: %v", err)
	}
	noThreadIn(t, netns)
}
