//go:build vm

package tool

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/test/kit"
)

// dumpLine is one line of rdmalink dump -j.
type dumpLine struct {
	Src, Dst string
	Packets  int // of the last line
	BTH      struct {
		Operation string
		PSN       uint32
	}
	ICRC, Damaged map[string]any
	MPA           struct{ Frame string }
	FPDU          struct{ CRC string }
	RDMAP         struct{ Operation string }
}

// dumping starts rdmalink dump on a network device and waits until it listens.
func dumping(t *testing.T, netdev string) *kit.Running {
	t.Helper()
	r := kit.Launch(t, exec.Command(kit.RdmalinkBin, "dump", "-j", "-i", netdev))
	for {
		line, err := r.Err.ReadString('\n')
		if err != nil {
			t.Fatal(err, line)
		}
		if strings.Contains(line, "listening on "+netdev) {
			return r
		}
	}
}

// dumpedUntil ends the dump when it has printed this, and reads all that it printed.
func dumpedUntil(t *testing.T, r *kit.Running, text string, times int) (all []dumpLine) {
	t.Helper()
	kit.Until(t, "dumped", func() bool { return strings.Count(r.Out.SoFar(), text) >= times })
	kit.OK(t, r.Process.Signal(syscall.SIGINT))
	end := r.End()
	if end.Code != 0 {
		t.Errorf("%+v", end)
	}
	for line := range strings.Lines(end.Out) {
		var one dumpLine
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Damaged != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if one.Packets == 0 { // the last line counts what was skipped
			all = append(all, one)
		}
	}
	return all
}

// TestDumpRxe checks that each message of ibv_rc_pingpong is seen where it crosses a network device, with its
// acknowledgement, and the kernel's ICRC is the one computed.
func TestDumpRxe(t *testing.T) {
	kit.Only612(t)
	near, far := kit.RxeWire(t)
	dump := dumping(t, "gvnear")
	words := func(link string, d *kit.RxeDevice) []string {
		return []string{"-d", link, "-g", fmt.Sprint(d.GID.Index), "-n", "5", "-s", "1000", "-m", "256"}
	}
	server := kit.ServePort(t, exec.Command("ibv_rc_pingpong", words("gvrxef", far)...), kit.PingpongPort)
	client := kit.Launch(t, exec.Command("ibv_rc_pingpong", append(words("gvrxen", near), "127.0.0.1")...)).End()
	if out := server.End(); out.Code != 0 || client.Code != 0 {
		t.Fatalf("%+v\n%+v", out, client)
	}
	type packet struct{ from, operation string }
	seen := make(map[packet]map[uint32]bool) // the packet sequence numbers: a packet may be sent again
	for _, line := range dumpedUntil(t, dump, "RC SEND_LAST", 10) {
		if line.ICRC["check"] != "correct" {
			t.Errorf("%+v", line)
		}
		from, _, _ := strings.Cut(line.Src, ":")
		p := packet{from, line.BTH.Operation}
		if seen[p] == nil {
			seen[p] = make(map[uint32]bool)
		}
		seen[p][line.BTH.PSN] = true
	}
	for _, from := range []string{kit.WireNear, kit.WireFar} {
		for operation, want := range map[string]int{"RC SEND_FIRST": 5, "RC SEND_MIDDLE": 10, "RC SEND_LAST": 5} {
			if got := len(seen[packet{from, operation}]); got != want {
				t.Errorf("%s from %s: %d, want %d", operation, from, got, want)
			}
		}
		if len(seen[packet{from, "RC ACKNOWLEDGE"}]) == 0 {
			t.Errorf("no acknowledgement from %s", from)
		}
	}
}

// TestDumpSiw checks that rping's messages are found in siw's TCP connections, also where a segment holds several or a
// part of one.
func TestDumpSiw(t *testing.T) {
	kit.Only612(t)
	kit.CMLink(t, "siw")
	dump := dumping(t, "lo")
	server := kit.ServeCM(t, kit.Rping("C", "-s -C 3 -a 10.78.0.1 -S 9000"), "7174")
	client := kit.Launch(t, kit.Rping("C", "-c -C 3 -a 10.78.0.1 -S 9000")).End()
	if out := server.End(); out.Code != 0 && client.Code != 0 {
		t.Fatalf("%+v\n%+v", out, client)
	}
	got := make(map[string]int)
	for _, line := range dumpedUntil(t, dump, `"operation":"Send"`, 12) { // which is the last of all
		if line.FPDU.CRC == "incorrect" {
			t.Errorf("%+v", line)
		}
		got[line.MPA.Frame+line.RDMAP.Operation]++
	}
	delete(got, "") // the empty frame that opens a connection
	delete(got, "Terminate")
	if got["Write"] < 3 { // an MTU of lo's takes one
		t.Errorf("%v", got)
	}
	delete(got, "Write")
	delete(got, "Read Response")
	if diff := cmp.Diff(map[string]int{"request": 1, "reply": 1, "Send": 12, "Read Request": 3}, got); diff != "" {
		t.Error(diff)
	}
}
