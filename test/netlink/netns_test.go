//go:build vm

package netlink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
)

// otherNetns makes a network namespace that goes away with the test.
func otherNetns(t *testing.T) *os.File {
	t.Helper()
	kit.Sh(t, "ip netns add gvother")
	t.Cleanup(func() { kit.Sh(t, "ip netns del gvother") })
	f := kit.Must(os.Open("/run/netns/gvother"))(t)
	kit.CloseLater(t, f)
	return f
}

// noThreadIn fails when a thread of this process stays in the namespace; one
// that was there may not have ended yet.
func noThreadIn(t *testing.T, netns *os.File) {
	t.Helper()
	var st unix.Stat_t
	change(t, unix.Fstat(int(netns.Fd()), &st))
	there := fmt.Sprintf("net:[%d]", st.Ino)
	kit.Until(t, "without a thread in the namespace", func() bool {
		tasks := kit.Must(filepath.Glob("/proc/self/task/*/ns/net"))(t)
		if len(tasks) == 0 {
			t.Fatal("no threads")
		}
		return !slices.ContainsFunc(tasks, func(task string) bool {
			where, err := os.Readlink(task)
			return err == nil && where == there
		})
	})
}

// subscribeThere returns a function that fails if an event of a device arrived in the other
// namespace: in shared mode all devices belong to the first namespace. The event arrives there,
// and the kernel sends to all namespaces at once.
func subscribeThere(t *testing.T, there netlinkrdma.Client) func(device string) {
	t.Helper()
	deaf, err := there.Subscribe()
	if kit.OnKernel("6.1") {
		return func(string) {}
	}
	change(t, err)
	kit.CloseLater(t, deaf)
	events := kit.Must(new(netlinkrdma.Client).Subscribe())(t)
	kit.CloseLater(t, events)
	return func(device string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
		defer cancel()
		for kit.Must(events.Next(ctx))(t).DeviceName != device {
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
	kit.Dummy(t, "gvhereonly")
	index := kit.Link(t, "gvrxehere", "rxe", "gvhereonly").Index
	if diff := cmp.Diff(kit.Must(here.Devices())(t), kit.Must(there.Devices())(t)); diff != "" {
		t.Errorf("(-here +there):\n%s", diff)
	}
	if diff := cmp.Diff(kit.Dumped(t, here.PDs(index, nil)), kit.Dumped(t, there.PDs(index, nil))); diff != "" {
		t.Errorf("(-here +there):\n%s", diff)
	}
	if a, b := kit.Must(here.Port(index, 1))(t), kit.Must(there.Port(index, 1))(t); a.NetdevName != "gvhereonly" || b.NetdevIndex != 0 {
		t.Errorf("here %+v, there %+v", a, b)
	}
	deaf := subscribeThere(t, there)
	kit.Sh(t, "ip -n gvother link add gvthereonly type dummy")
	change(t, there.AddLink("gvrxethere", "rxe", "gvthereonly"))
	deaf("gvrxethere")
	d := kit.Must(here.DeviceByName("gvrxethere"))(t)
	if a, b := kit.Must(here.Port(d.Index, 1))(t), kit.Must(there.Port(d.Index, 1))(t); a.NetdevIndex != 0 || b.NetdevName != "gvthereonly" {
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

// TestSocketNetns checks that a Socket stays in the namespace of its first request, that requests
// work in the body of a dump and after a dump that was left, and that it is one descriptor.
func TestSocketNetns(t *testing.T) {
	netns := otherNetns(t)
	kit.Dummy(t, "gvsocket")
	index := kit.Link(t, "gvrxesock", "rxe", "gvsocket").Index
	s := new(netlinkrdma.Socket)
	c := netlinkrdma.Client{Kernel: s}
	if p := kit.Must(c.Port(index, 1))(t); p.NetdevName != "gvsocket" {
		t.Fatalf("%+v", p)
	}
	before := len(kit.Must(os.ReadDir("/proc/self/fd"))(t))
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so the thread ends
		err := unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			var p netlinkrdma.Port
			if p, err = c.Port(index, 1); err == nil && p.NetdevName != "gvsocket" {
				err = fmt.Errorf("%+v", p)
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error("from a thread in another namespace:", err)
	}
	want := kit.Dumped(t, (&netlinkrdma.Client{}).PDs(index, nil))
	for range 3 {
		for pd, err := range c.PDs(index, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.PD(index, pd.PDN); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, kit.Dumped(t, c.PDs(index, nil))); diff != "" {
				t.Errorf("inside a dump (-want +got):\n%s", diff)
			}
			break
		}
		if diff := cmp.Diff(want, kit.Dumped(t, c.PDs(index, nil))); diff != "" || len(want) == 0 {
			t.Errorf("%d PDs (-want +got):\n%s", len(want), diff)
		}
		if !kit.Must(c.IsListed(index))(t) {
			t.Error("the device is not listed")
		}
	}
	if after := len(kit.Must(os.ReadDir("/proc/self/fd"))(t)); after > before {
		t.Errorf("%d descriptors, %d after the first request", after, before)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
