//go:build vm

package test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// TestLinkOnLo: in a fresh network namespace, as a container has it, rdmalink
// refuses a link that could not connect; with --fix-netdev rping runs over lo.
func TestLinkOnLo(t *testing.T) {
	needSiw(t)
	newNetns(t)
	refused := rdmalink(t, "add siwlo type siw netdev lo")
	for _, want := range []string{"lo has no hardware address", "ip link set lo address 02:00:00:00:00:01", "ip addr add 192.0.2.1/32 dev lo", "--fix-netdev"} {
		if refused.Code != 1 || !strings.Contains(refused.Err, want) {
			t.Errorf("no %q in %+v", want, refused)
		}
	}
	if out := iproute2(t, "link").Out; strings.Contains(out, "siwlo") {
		t.Errorf("the link was added all the same: %s", out)
	}

	fixed := rdmalink(t, "add --fix-netdev siwlo type siw netdev lo")
	if fixed.Code != 0 || strings.Count(fixed.Err, "rdmalink: note: lo: ") != 3 {
		t.Fatalf("%+v", fixed)
	}
	t.Cleanup(func() {
		if out := rdmalink(t, "del siwlo"); out.Code != 0 {
			t.Errorf("%+v", out)
		}
	})
	const want = "link siwlo/1 state ACTIVE physical_state LINK_UP netdev lo \n"
	if got := rdmalink(t, "show siwlo"); got.Out != want {
		t.Errorf("got %q, want %q", got, want)
	}
	rpingOver(t, "192.0.2.1")
	if again := rdmalink(t, "add --fix-netdev siwlo2 type siw netdev lo"); again.Code != 1 || strings.Contains(again.Err, "note") {
		t.Errorf("fixing what is fixed: %+v", again)
	}
}

// TestRemedyForLo runs the commands the refusal names.
func TestRemedyForLo(t *testing.T) {
	needSiw(t)
	newNetns(t)
	for _, line := range strings.Split(rdmalink(t, "add siwlo type siw netdev lo").Err, "\n") {
		if command, ok := strings.CutPrefix(line, "  ip "); ok {
			sh(t, "ip "+command)
		}
	}
	sh(t, "ip link set lo up")
	if diff := rdmalink(t, "add siwlo type siw netdev lo"); diff != (output{}) {
		t.Fatalf("%+v", diff)
	}
	if out := rdmalink(t, "del siwlo"); out != (output{}) {
		t.Errorf("%+v", out)
	}
}

// TestLoNeedsMAC is why rdmalink refuses: the link iproute2 adds on lo looks
// healthy, and no address on it can be resolved. If a kernel mends this one
// day, the refusal has to go.
func TestLoNeedsMAC(t *testing.T) {
	needSiw(t)
	newNetns(t)
	sh(t, "ip link set lo up && ip addr add 192.0.2.1/32 dev lo")
	sh(t, "rdma link add siwlo type siw netdev lo")
	t.Cleanup(func() { sh(t, "rdma link del siwlo") })
	if out := iproute2(t, "link show siwlo/1").Out; !strings.Contains(out, "state ACTIVE") {
		t.Errorf("link: %s", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "rping", "-c", "-a", "192.0.2.1", "-C", "1").CombinedOutput()
	if text := string(out); err == nil || !strings.Contains(text, "addr") && !strings.Contains(text, "ADDR") {
		t.Errorf("rping over lo without a hardware address: %v\n%s", err, out)
	}
}
