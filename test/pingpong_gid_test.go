//go:build vm

package test

import (
	"fmt"
	"strings"
	"testing"
)

// TestPingpongIPv6: our GID is that of the address TCP uses, or fits the
// client's, or is the one of -g. C's server listens on IPv4 only.
func TestPingpongIPv6(t *testing.T) {
	only612(t)
	rxeFabric(t)
	g := fmt.Sprintf(" -n 20 -c -g %d ", rxeGIDIndex(t, rxeIPv6))
	for _, kind := range []string{"rc", "ud"} { // QPs' addresses, and address handles
		for _, test := range []struct{ server, serverLine, client, clientLine string }{
			{"Go", "-c", "Go", rxeIPv6},
			{"Go", "-c", "Go", "::1"},
			{"Go", "-c", "Go", "127.0.0.1" + g},
			{"Go", "-c", "C", rxeIPv4 + g},
			{"Go", "-c", "C", rxeIPv6 + g},
			{"C", g, "Go", "127.0.0.1" + g},
		} {
			t.Run(strings.Join([]string{kind, test.server, test.client, test.clientLine}, " "), func(t *testing.T) {
				noLeak(t)
				serverOut, clientOut := pingponged(t, pingpong(t, test.server, kind, "-n 20 "+test.serverLine), pingpong(t, test.client, kind, "-n 20 -c "+test.clientLine))
				for _, out := range []output{serverOut, clientOut} {
					if !strings.Contains(out.Out, "GID fd83::1\n") || strings.Contains(out.Out, rxeIPv4) {
						t.Error(out.Out)
					}
				}
			})
		}
	}
}
