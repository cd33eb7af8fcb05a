//go:build vm

package test

import (
	"strings"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// TestSystemAsRdma: each program sees the other's settings.
func TestSystemAsRdma(t *testing.T) {
	for _, line := range []string{"s s", "-p sys show netns", "-j system", "-jp system", "system frob", "system show frob"} {
		sameAsRDMA(t, line)
	}
	for _, line := range []string{"sys show monitor", "-o system"} {
		newerRDMA.same(t, line, rdmalink(t, line))
	}
	const set = "system set privileged-qkey "
	t.Cleanup(func() { change(t, new(netlinkrdma.Client).SetPrivilegedQKey(false)) })
	for _, on := range []string{"on", "off"} {
		done(t, set+on)
		sameAsRDMA(t, "system")
		if got := newerRDMA.run(t, "system").Out; !strings.Contains(got, "privileged-qkey "+on+" ") {
			t.Errorf("set %s: %s", on, got)
		}
	}
	if got := newerRDMA.run(t, set+"on"); got != (output{}) {
		t.Errorf("%+v", got)
	}
	sameAsRDMA(t, "-j system")
}
