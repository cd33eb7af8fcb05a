package perfcmd

import (
	"strings"
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
		t.Run(line, func(t *testing.T) {
			f := rdmatest.NewWith(t, &rdmatest.Options{Kind: rdmatest.MLX5})
			conns := tcpPair(t)
			server := make(chan error, 1)
			go func() {
				_, err := runOver(t, conns[0], f.Host(0).Device(0), line+" -n 40")
				server <- err
			}()
			out, err := runOver(t, conns[1], f.Host(1).Device(0), line+" -n 40 host")
			if serverErr := <-server; err != nil || serverErr != nil || !strings.Contains(out, want) || !strings.Contains(out, "Connection type : DC\n") {
				t.Errorf("%v, server: %v\n%s", err, serverErr, out)
			}
		})
	}
}
