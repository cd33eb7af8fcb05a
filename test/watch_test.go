//go:build vm

package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// watchLine is what rdmalink -j watch prints of an event.
type watchLine struct {
	Source, Event, IfName string
	Port                  int
	State, Netdev         string
}

// hears reads lines until the one that is wanted, of which an empty source or
// state may be any.
func (p *process) hears(t *testing.T, want watchLine) (got watchLine) {
	t.Helper()
	for {
		got = watchLine{}
		if err := json.Unmarshal([]byte(p.line(t)), &got); err != nil {
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

// TestWatch: links that come and go, and ports that go down and up, in one stream.
func TestWatch(t *testing.T) {
	dummy(t, "watch0", "10.88.0.1/24")
	dummy(t, "watch1", "10.88.1.1/24")
	link(t, "gvwatch", "rxe", "watch0")
	noLeak(t)
	source := "netlink"
	if onKernel("6.1") {
		source = "look"
	}
	w := start(t, exec.Command(rdmalinkPath(t), "-j", "watch"))
	w.hears(t, watchLine{Source: "look", Event: "PRESENT", IfName: "gvwatch", Port: 1, State: "ACTIVE", Netdev: "watch0"})
	sh(t, "ip link set watch0 down")
	w.hears(t, watchLine{Source: "device", Event: "PORT_ERR", IfName: "gvwatch", Port: 1})
	sh(t, "ip link set watch0 up")
	w.hears(t, watchLine{Source: "device", Event: "PORT_ACTIVE", IfName: "gvwatch", Port: 1})
	sh(t, "ip addr add 10.88.0.2/24 dev watch0")
	w.hears(t, watchLine{Source: "device", Event: "GID_CHANGE", IfName: "gvwatch", Port: 1})
	// Polling may be faster at times than the kernel's events.
	sources := make(map[string]bool)
	hears := func(event string, want watchLine) {
		t.Helper()
		want.Event = event
		sources[event+" "+w.hears(t, want).Source] = true
	}
	for _, typ := range linkTypes() {
		clear(sources)
		for !sources["REGISTER "+source] || !sources["NETDEV_ATTACH "+source] || !sources["PORT_ERR device"] || !sources["PORT_ACTIVE device"] {
			sh(t, rdmalinkPath(t)+" add gvcomes type "+typ+" netdev watch1")
			hears("REGISTER", watchLine{IfName: "gvcomes"})
			hears("NETDEV_ATTACH", watchLine{IfName: "gvcomes", Port: 1, Netdev: "watch1"})
			sh(t, "ip link set watch1 down")
			hears("PORT_ERR", watchLine{IfName: "gvcomes", Port: 1})
			sh(t, "ip link set watch1 up")
			hears("PORT_ACTIVE", watchLine{IfName: "gvcomes", Port: 1})
			sh(t, "rdma dev set gvcomes name gvgoes")
			hears("RENAME", watchLine{IfName: "gvgoes"})
			sh(t, rdmalinkPath(t)+" del gvgoes") // returns when everybody let it go
			hears("UNREGISTER", watchLine{IfName: "gvgoes"})
		}
	}
	w.interrupt(t, "looking at them every 500ms instead")
}

// interrupt ends it and checks its message on a kernel without events.
func (p *process) interrupt(t *testing.T, on61 string) {
	t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.finish(t)
	if said := p.stderr.String(); onKernel("6.1") != strings.Contains(said, on61) || !onKernel("6.1") && said != "" {
		t.Errorf("on stderr: %s", said)
	}
}

// TestWatchFromOutside: without the device nodes there are fewer events, and ports
// are looked at.
func TestWatchFromOutside(t *testing.T) {
	dummy(t, "watch2", "10.88.2.1/24")
	link(t, "gvout", "rxe", "watch2")
	noLeak(t)
	j := newJail(t)
	w := start(t, j.command("/rdmalink", "-j", "watch"))
	w.hears(t, watchLine{Source: "look", Event: "PRESENT", IfName: "gvout", Port: 1, State: "ACTIVE", Netdev: "watch2"})
	sh(t, "ip link set watch2 down")
	w.hears(t, watchLine{Source: "look", Event: "PORT_ERR", IfName: "gvout", Port: 1, State: "DOWN"})
	sh(t, "ip link set watch2 up")
	w.hears(t, watchLine{Source: "look", Event: "PORT_ACTIVE", IfName: "gvout", Port: 1, State: "ACTIVE"})
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.finish(t)
	if want := "gvout is not heard, and its ports are looked at instead: open device on gvout"; !strings.Contains(w.stderr.String(), want) {
		t.Errorf("on stderr: %s", &w.stderr)
	}
}
