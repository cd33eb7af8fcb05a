//go:build vm

package tool

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/test/kit"
)

// watchLine is what rdmalink -j watch prints of an event.
type watchLine struct {
	Source, Event, IfName string
	Port                  int
	State, Netdev         string
}

// hears reads lines until the one that is wanted, of which an empty source or
// state may be any.
func hears(p *kit.Process, t *testing.T, want watchLine) (got watchLine) {
	t.Helper()
	for {
		got = watchLine{}
		if err := json.Unmarshal([]byte(p.Line(t)), &got); err != nil {
			t.Fatal(err)
		}
		fits := got
		if want.Source == "" {
			fits.Source = ""
		}
		if want.State == "" {
			fits.State = ""
		}
		if fits == want {
			return got
		}
	}
}

// TestWatch watches links that come and go, and ports that go down and up, in one stream.
func TestWatch(t *testing.T) {
	kit.Dummy(t, "watch0", "10.88.0.1/24")
	kit.Dummy(t, "watch1", "10.88.1.1/24")
	kit.Link(t, "gvwatch", "rxe", "watch0")
	kit.NoLeak(t)
	source := "netlink"
	if kit.OnKernel("6.1") {
		source = "look"
	}
	w := kit.Start(t, exec.Command(kit.RdmalinkPath(t), "-j", "watch"))
	hears(w, t, watchLine{Source: "look", Event: "PRESENT", IfName: "gvwatch", Port: 1, State: "ACTIVE", Netdev: "watch0"})
	kit.Sh(t, "ip link set watch0 down")
	hears(w, t, watchLine{Source: "device", Event: "PORT_ERR", IfName: "gvwatch", Port: 1})
	kit.Sh(t, "ip link set watch0 up")
	hears(w, t, watchLine{Source: "device", Event: "PORT_ACTIVE", IfName: "gvwatch", Port: 1})
	kit.Sh(t, "ip addr add 10.88.0.2/24 dev watch0")
	hears(w, t, watchLine{Source: "device", Event: "GID_CHANGE", IfName: "gvwatch", Port: 1})
	// Polling may be faster at times than the kernel's events.
	sources := make(map[string]bool)
	hears := func(event string, want watchLine) {
		t.Helper()
		want.Event = event
		sources[event+" "+hears(w, t, want).Source] = true
	}
	for _, typ := range kit.LinkTypes() {
		clear(sources)
		for !sources["REGISTER "+source] || !sources["NETDEV_ATTACH "+source] || !sources["PORT_ERR device"] || !sources["PORT_ACTIVE device"] {
			kit.Sh(t, kit.RdmalinkPath(t)+" add gvcomes type "+typ+" netdev watch1")
			hears("REGISTER", watchLine{IfName: "gvcomes"})
			hears("NETDEV_ATTACH", watchLine{IfName: "gvcomes", Port: 1, Netdev: "watch1"})
			kit.Sh(t, "ip link set watch1 down")
			hears("PORT_ERR", watchLine{IfName: "gvcomes", Port: 1})
			kit.Sh(t, "ip link set watch1 up")
			hears("PORT_ACTIVE", watchLine{IfName: "gvcomes", Port: 1})
			kit.Sh(t, "rdma dev set gvcomes name gvgoes")
			hears("RENAME", watchLine{IfName: "gvgoes"})
			kit.Sh(t, kit.RdmalinkPath(t)+" del gvgoes") // returns when everybody let it go
			hears("UNREGISTER", watchLine{IfName: "gvgoes"})
		}
	}
	interrupt(w, t, "checking them every 500ms instead")
}

// interrupt ends it and checks its message on a kernel without events.
func interrupt(p *kit.Process, t *testing.T, on61 string) {
	t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.Finish(t)
	if said := p.Stderr.String(); kit.OnKernel("6.1") != strings.Contains(said, on61) || !kit.OnKernel("6.1") && said != "" {
		t.Errorf("on stderr: %s", said)
	}
}

// TestWatchFromOutside checks that without the device nodes there are fewer events, and ports are looked at.
func TestWatchFromOutside(t *testing.T) {
	kit.Dummy(t, "watch2", "10.88.2.1/24")
	kit.Link(t, "gvout", "rxe", "watch2")
	kit.NoLeak(t)
	j := kit.NewChroot(t)
	w := kit.Start(t, j.Command("/rdmalink", "-j", "watch"))
	hears(w, t, watchLine{Source: "look", Event: "PRESENT", IfName: "gvout", Port: 1, State: "ACTIVE", Netdev: "watch2"})
	kit.Sh(t, "ip link set watch2 down")
	hears(w, t, watchLine{Source: "look", Event: "PORT_ERR", IfName: "gvout", Port: 1, State: "DOWN"})
	kit.Sh(t, "ip link set watch2 up")
	hears(w, t, watchLine{Source: "look", Event: "PORT_ACTIVE", IfName: "gvout", Port: 1, State: "ACTIVE"})
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.Finish(t)
	if want := "can't receive events of gvout, checking its ports instead: open device on gvout"; !strings.Contains(w.Stderr.String(), want) {
		t.Errorf("on stderr: %s", &w.Stderr)
	}
}
