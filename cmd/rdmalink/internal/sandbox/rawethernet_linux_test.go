package sandbox

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRawEthernetOnCores sends Ethernet frames with perftest and rdma-core's provider to a receiver
// with a matching rule. The sender does not know when the receiver is ready, so it sends until
// the receiver has enough frames.
func TestRawEthernetOnCores(t *testing.T) {
	long(t)
	const program = "raw_ethernet_bw -d mlx5_0 -n 500 -s 64 "
	need(t, strings.Fields(program)[0])
	script := program + "--server -E 02:00:00:00:00:01 -B 02:00:00:00:00:02 & server=$!\n" +
		"while kill -0 $server; do " + program + "--client -E 02:00:00:00:00:02 -B 02:00:00:00:00:01 > /dev/null || exit 1; done 2> /dev/null\n" +
		"wait $server"
	onCores(t, func(t *testing.T, c core) { rawEthernet(t, c, script) })
}

func rawEthernet(t *testing.T, c core, script string) {
	t.Parallel()
	for _, kind := range []string{"mlx5", "mlx5-old"} {
		for way, options := range ways {
			out, err := c.inside(t, append(slices.Clone(options), "-d", kind), "sh", "-c", script)
			if err != nil || !regexp.MustCompile(`(?m)^ 64 +500 `).MatchString(out) {
				t.Errorf("%s, %s: %v\n%s", kind, way, err, out)
			}
		}
	}
}
