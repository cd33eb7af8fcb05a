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
func (p *process) hears(t *testing.T, want watchLine) {
	t.Helper()
	for {
		var got watchLine
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
			return
		}
	}
}

// TestWatch: links that come and go, and ports that go down and up, in one stream.
func TestWatch(t *testing.T) {
	dummy(t, "watch0", "10.88.0.1/24")
	dummy(t, "watch1", "10.88.1.1/24")
	link(t, "gvwatch", "rxe", "watch0")
	noLeak(t)
	told := "netlink"
	if onLinux61() {
		told = "look"
	}
	w := start(t, exec.Command(rdmalinkPath(t), "-j", "watch"))
	w.hears(t, watchLine{Source: "look", Event: "PRESENT", IfName: "gvwatch", Port: 1, State: "ACTIVE", Netdev: "watch0"})
	sh(t, "ip link set watch0 down")
	w.hears(t, watchLine{Source: "device", Event: "PORT_ERR", IfName: "gvwatch", Port: 1})
	sh(t, "ip link set watch0 up")
	w.hears(t, watchLine{Source: "device", Event: "PORT_ACTIVE", IfName: "gvwatch", Port: 1})
	sh(t, "ip addr add 10.88.0.2/24 dev watch0")
	w.hears(t, watchLine{Source: "device", Event: "GID_CHANGE", IfName: "gvwatch", Port: 1})
	for _, typ := range linkTypes() {
		sh(t, rdmalinkPath(t)+" add gvcomes type "+typ+" netdev watch1")
		w.hears(t, watchLine{Source: told, Event: "REGISTER", IfName: "gvcomes"})
		w.hears(t, watchLine{Source: told, Event: "NETDEV_ATTACH", IfName: "gvcomes", Port: 1, Netdev: "watch1"})
		sh(t, "ip link set watch1 down")
		w.hears(t, watchLine{Source: "device", Event: "PORT_ERR", IfName: "gvcomes", Port: 1})
		sh(t, "ip link set watch1 up")
		w.hears(t, watchLine{Source: "device", Event: "PORT_ACTIVE", IfName: "gvcomes", Port: 1})
		sh(t, "rdma dev set gvcomes name gvgoes")
		w.hears(t, watchLine{Event: "RENAME", IfName: "gvgoes"})
		sh(t, rdmalinkPath(t)+" del gvgoes") // returns when everybody let it go
		w.hears(t, watchLine{Event: "UNREGISTER", IfName: "gvgoes"})
	}
	w.interrupt(t, "looking at them every 500ms instead")
}

// interrupt ends it, with what it says on a kernel without events.
func (p *process) interrupt(t *testing.T, on61 string) {
	t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.finish(t)
	if said := p.stderr.String(); onLinux61() != strings.Contains(said, on61) || !onLinux61() && said != "" {
		t.Errorf("on stderr: %s", said)
	}
}

// TestWatchFromOutside: without the device nodes there is less to tell, and ports
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
