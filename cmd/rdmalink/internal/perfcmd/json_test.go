package perfcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/perf"
)

// TestJSONStdev: equal samples deviate by 0, which is a figure. A run by time has none.
func TestJSONStdev(t *testing.T) {
	for _, c := range []struct {
		l    perf.Latency
		want bool
	}{{perf.Latency{Avg: 1}, true}, {perf.Latency{Avg: 1, PerSecond: 5}, false}} {
		var j jsonReport
		j.latency(&session{}, &c.l)
		line, err := json.Marshal(j.Results[0])
		if has := strings.Contains(string(line), `"t_stdev_usec":0`); err != nil || has != c.want {
			t.Errorf("%s, %v", line, err)
		}
	}
}
