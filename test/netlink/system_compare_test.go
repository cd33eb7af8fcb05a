//go:build vm

package netlink

import (
	"strings"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
)

// TestSystemAsRdma checks that each program sees the other's settings.
func TestSystemAsRdma(t *testing.T) {
	for _, line := range []string{"s s", "-p sys show netns", "-j system", "-jp system", "system frob", "system show frob"} {
		sameAsRDMA(t, line)
	}
	for _, line := range []string{"sys show monitor", "-o system"} {
		same(kit.NewerRDMA, t, line, kit.Rdmalink(t, line))
	}
	const set = "system set privileged-qkey "
	t.Cleanup(func() { change(t, new(netlinkrdma.Client).SetPrivilegedQKey(false)) })
	for _, on := range []string{"on", "off"} {
		done(t, set+on)
		sameAsRDMA(t, "system")
		if got := kit.NewerRDMA.Run(t, "system").Out; !strings.Contains(got, "privileged-qkey "+on+" ") {
			t.Errorf("set %s: %s", on, got)
		}
	}
	if got := kit.NewerRDMA.Run(t, set+"on"); got != (kit.Output{}) {
		t.Errorf("%+v", got)
	}
	sameAsRDMA(t, "-j system")
}
