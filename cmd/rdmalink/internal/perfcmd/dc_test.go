package perfcmd

import (
	"testing"

	"github.com/goverbs/goverbs/rdmatest"
)

// TestDC runs initiators and targets of DC, with each operation, in one direction and in both.
func TestDC(t *testing.T) {
	for line, want := range map[string]string{
		"write bw -c DC -q 2":      " 65536      80 ",
		"write bw -c DC -I 32 -a":  " 2          40 ",
		"read bw -c DC -s 1000 -e": " 1000       40 ",
		"send bw -c DC -q 3 -s 64": " 64         120 ",
		"atomic bw -c DC -l 4":     " 8          40 ",

		"send lat -c DC -I 32":            " 2       40 ",
		"send lat -c DC -e -s 5000":       " 5000    40 ",
		"write lat -c DC -s 3000":         " 3000    40 ",
		"read lat -c DC":                  " 2       40 ",
		"atomic lat -c DC":                " 8       40 ",
		"send bw -b -c DC -q 2 -s 64":     " 64         80 ",
		"write bw -b -c DC -q 3 -s 64 -e": " 64         120 ",
		"read bw -b -c DC -l 4":           " 65536      40 ",

		"write bw -c DC --log_dci_streams 2":                              " 65536      40 ",
		"send bw -b -c DC --log_dci_streams 2 --log_active_dci_streams 1": " 65536      40 ",
	} {
		testBothEnds(t, rdmatest.MLX5, line, want, "Connection type : DC\n")
	}
}
