package perfcmd

import (
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestDC runs an initiator and a target of DC, with each operation.
func TestDC(t *testing.T) {
	for line, want := range map[string]string{
		"write bw -c DC -q 2":      " 65536      80 ",
		"write bw -c DC -I 32 -a":  " 2          40 ",
		"read bw -c DC -s 1000 -e": " 1000       40 ",
		"send bw -c DC -q 3 -s 64": " 64         120 ",
		"atomic bw -c DC -l 4":     " 8          40 ",
	} {
		testBothEnds(t, rdmatest.MLX5, line, want, "Connection type : DC\n")
	}
}
