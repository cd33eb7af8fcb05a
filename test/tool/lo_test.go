//go:build vm

package tool

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/softlink"
	"github.com/goverbs/goverbs/test/kit"
)

// TestLinkOnLo checks that in a fresh network namespace, as a container has it, the line that README
// begins with adds a link that connects, and prints its settings. Its commands undo that.
func TestLinkOnLo(t *testing.T) {
	kit.NeedSiw(t)
	kit.NewNetns(t)
	const line = "add siwlo type siw netdev lo"
	refused := kit.Rdmalink(t, line+" --keep-netdev")
	for _, want := range []string{"lo has no hardware address", "ip link set lo address 02:00:00:00:00:01", "ip addr add 192.0.2.1/32 dev lo", "leave out --keep-netdev"} {
		if refused.Code != 1 || !strings.Contains(refused.Err, want) {
			t.Errorf("no %q in %+v", want, refused)
		}
	}
	asBefore(t)
	added := kit.Rdmalink(t, "-j "+line)
	if added.Code != 0 || added.Out != "" || strings.Count(added.Err, "rdmalink: note: lo: ") != 3 {
		t.Fatalf("%+v", added)
	}
	const want = "link siwlo/1 state ACTIVE physical_state LINK_UP netdev lo \n"
	if got := kit.Rdmalink(t, "show siwlo"); got.Out != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rpingOver(t, "192.0.2.1")
	if again := kit.Rdmalink(t, "add siwlo2 type siw netdev lo"); again.Code != 1 || strings.Contains(again.Err, "note") {
		t.Errorf("again: %+v", again)
	}
	if out := kit.Rdmalink(t, "del siwlo"); out != (kit.Output{}) {
		t.Errorf("%+v", out)
	}
	for note := range strings.Lines(added.Err) {
		if _, command, ok := strings.Cut(note, "to undo: "); ok {
			kit.Sh(t, command)
		}
	}
	asBefore(t)
	if out := kit.Sh(t, "ip link set lo address 00:00:00:00:00:00 2>&1 || true"); !strings.Contains(out, "Cannot assign") {
		t.Errorf("the kernel takes lo's hardware address back, add should say how: %s", out)
	}
}

// asBefore wants lo as it is in a fresh network namespace, but for its hardware
// address, and no link on it.
func asBefore(t *testing.T) {
	t.Helper()
	if out := kit.Sh(t, "ip addr show lo"); strings.Contains(out, "192.0.2") || strings.Contains(out, "UP") {
		t.Errorf("lo was changed: %s", out)
	}
	if out := kit.Iproute2(t, "link").Out; strings.Contains(out, "siwlo") {
		t.Errorf("there is a link: %s", out)
	}
}

// TestAddLeavesLo checks that a link that the kernel refuses leaves lo as it was, also where the user may change lo but
// not add links.
func TestAddLeavesLo(t *testing.T) {
	kit.NeedSiw(t)
	kit.NewNetns(t)
	before := kit.Sh(t, "ip addr show lo")
	for _, line := range []string{
		"add gvx type nosuch netdev lo", "add nosuch% type siw netdev lo", "add gvx type siw netdev nosuch",
	} {
		if out := kit.Rdmalink(t, line); out.Code != 1 {
			t.Errorf("%s: %+v", line, out)
		}
	}
	if out := kit.RunCommand(t, kit.Nobody(exec.Command(everybodysRdmalink(t), strings.Fields("add gvx type siw netdev lo")...))); out.Code != 1 || !strings.Contains(out.Err, "needs CAP_NET_ADMIN") {
		t.Errorf("as nobody: %+v", out)
	}
	if after := kit.Sh(t, "ip addr show lo"); after != before {
		t.Errorf("lo was\n%s, is\n%s", before, after)
	}
}

// TestAddOnBareNetdev adds a link on a network device that is down and has no address.
func TestAddOnBareNetdev(t *testing.T) {
	for _, typ := range kit.LinkTypes() {
		t.Run(typ, func(t *testing.T) {
			kit.Sh(t, "ip link add bare0 type dummy")
			t.Cleanup(func() { kit.Sh(t, "ip link del bare0") })
			out := kit.Rdmalink(t, "add gvbare type "+typ+" netdev bare0")
			t.Cleanup(func() { kit.Rdmalink(t, "del gvbare") })
			if out.Code != 0 || strings.Count(out.Err, "rdmalink: note: bare0: ") != 2 || strings.Count(out.Err, "to undo: ") != 2 {
				t.Fatalf("%+v", out)
			}
			server := kit.ServeCM(t, kit.Rping("Go", "-s -a 192.0.2.1"), "7174")
			kit.Pinged(t, server, kit.Launch(t, kit.Rping("Go", "-c -V -C 5 -a 192.0.2.1")))
		})
	}
}

// TestRemedyForLo runs the commands the refusal names.
func TestRemedyForLo(t *testing.T) {
	kit.NeedSiw(t)
	kit.NewNetns(t)
	for _, line := range strings.Split(kit.Rdmalink(t, "add siwlo type siw netdev lo --keep-netdev").Err, "\n") {
		if command, ok := strings.CutPrefix(line, "  ip "); ok {
			kit.Sh(t, "ip "+command)
		}
	}
	kit.Sh(t, "ip link set lo up")
	if diff := kit.Rdmalink(t, "add siwlo type siw netdev lo"); diff != (kit.Output{}) {
		t.Fatalf("%+v", diff)
	}
	if out := kit.Rdmalink(t, "del siwlo"); out != (kit.Output{}) {
		t.Errorf("%+v", out)
	}
}

// TestLoNeedsMAC is why rdmalink sets one: the link that iproute2 adds on lo looks
// healthy, and no address on it can be resolved.
func TestLoNeedsMAC(t *testing.T) {
	kit.NeedSiw(t)
	kit.NewNetns(t)
	kit.Sh(t, "ip link set lo up && ip addr add 192.0.2.1/32 dev lo")
	kit.Sh(t, "rdma link add siwlo type siw netdev lo")
	t.Cleanup(func() { kit.Sh(t, "rdma link del siwlo") })
	if out := kit.Iproute2(t, "link show siwlo/1").Out; !strings.Contains(out, "state ACTIVE") {
		t.Errorf("link: %s", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "rping", "-c", "-a", "192.0.2.1", "-C", "1").CombinedOutput()
	if text := string(out); err == nil || !strings.Contains(text, "addr") && !strings.Contains(text, "ADDR") {
		t.Errorf("rping over lo without a hardware address: %v\n%s", err, out)
	}
}

// TestEnsureLinkOnLo checks that EnsureLink replaces a link that can't connect, because lo had no hardware address, and
// changes nothing the second time.
func TestEnsureLinkOnLo(t *testing.T) {
	kit.NeedSiw(t)
	kit.NewNetns(t)
	var c netlinkrdma.Client
	kit.OK(t, c.AddLink("siwlo", "siw", "lo"))
	changes := kit.Must(softlink.EnsureLink(&c, "siwlo", "siw", "lo"))(t)
	defer kit.Rdmalink(t, "del siwlo")
	if len(changes) != 3 {
		t.Errorf("%q", changes)
	}
	rpingOver(t, "192.0.2.1")
	if again := kit.Must(softlink.EnsureLink(&c, "siwlo", "siw", "lo"))(t); len(again) != 0 {
		t.Errorf("again: %q", again)
	}
}
