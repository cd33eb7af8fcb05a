//go:build vm

package test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// TestExclusiveAsRdma wants the machine before any other test made a network
// namespace, as those of alone_test.go.
func TestExclusiveAsRdma(t *testing.T) {
	noFabric(t)
	setNetnsMode(t, netlinkrdma.NetnsExclusive) // when those of other tests are gone
	setNetnsMode(t, netlinkrdma.NetnsShared)
	done(t, "system set netns exclusive")
	t.Cleanup(func() { setNetnsMode(t, netlinkrdma.NetnsShared) })
	sameAsRDMA(t, "system")
	netns := otherNetns(t)
	for _, typ := range linkTypes() {
		dummy(t, typ+"alone")
		link(t, "gvalone"+typ, typ, typ+"alone")
	}
	for _, line := range []string{"dev", "-j dev", "link", "-jd link"} {
		sameAsRDMA(t, line)
		if got := sh(t, "ip netns exec gvother "+rdmalinkPath(t)+" "+line); got != sh(t, "ip netns exec gvother rdma "+line) || strings.Contains(got, "gvalone") {
			t.Errorf("%s, there: %s", line, got)
		}
	}
	// Soft devices can't be moved; that is told after the namespace was found.
	for _, to := range []string{"gvother", netns.Name(), fmt.Sprint(os.Getpid())} {
		got := rdmalink(t, "dev set gvalonerxe netns "+to)
		if got.Code != 1 || !strings.HasPrefix(got.Err, "rdmalink: move gvalonerxe to ") || !strings.Contains(got.Err, "operation not supported") {
			t.Errorf("%s: %+v", to, got)
		}
		if newer := newerRDMA.run(t, "dev set gvalonerxe netns "+to); newer.Code != got.Code {
			t.Errorf("%s: %+v", to, newer)
		}
	}
	got := rdmalink(t, "system set netns shared")
	if rdma := debianRDMA.run(t, "system set netns shared"); got.Code != 1 || rdma.Code != 1 || !strings.Contains(got.Err, "there are other network namespaces") {
		t.Errorf("%+v, rdma %+v", got, rdma)
	}
}
