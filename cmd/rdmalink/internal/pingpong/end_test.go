package pingpong

import (
	"strings"
	"testing"

	"github.com/goverbs/goverbs/verbs"
)

func TestPingpongMisfit(t *testing.T) {
	port := &verbs.PortAttr{State: verbs.PortActive, ActiveMTU: verbs.MTU2048, MaxMsgSize: 1 << 20}
	attr := &verbs.DeviceAttr{MaxQPWR: 1000, MaxSRQWR: 2000, MaxCQE: 1600}
	attr.ODP.General, attr.ODP.RC = verbs.ODPSupport, verbs.ODPSend|verbs.ODPRecv
	for line, want := range map[string]string{
		"rc":                 "",
		"ud -s 2048":         "",
		"ud -s 2049":         "-s 2049: a datagram over rxe0 holds 2048 bytes, its port's MTU",
		"uc -m 2048":         "",
		"uc -m 4096":         "-m 4096: the MTU of rxe0's port is 2048; give -m 2048, here and to the peer",
		"rc -s 1048576":      "",
		"rc -s 1048577":      "-s 1048577: rxe0 sends 1048576 bytes at most",
		"rc -r 1000":         "",
		"uc -r 1001":         "-r 1001: rxe0 takes 1000 receives at most",
		"srq -r 1584":        "",
		"srq -r 1585 -q 16":  "-r 1585: rxe0 takes 1584 receives at most",
		"srq -r 1585 -q 255": "-r 1585: rxe0 takes 1345 receives at most",
		"rc -o":              "",
		"srq -o":             "-o: rxe0 has no on-demand paging for this: not supported",
	} {
		words := strings.Fields(line)
		k := kindOf(words[0])
		o, err := parse(k, words[1:])
		if err != nil {
			t.Fatal(err)
		}
		p := &session{kind: k, options: o}
		if err := p.misfit("rxe0", port, attr); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	down := *port
	down.State = verbs.PortDown
	p := &session{kind: kindOf("rc"), options: kindOf("rc").defaults()}
	if err := p.misfit("rxe0", &down, attr); err == nil || err.Error() != "port 1 of rxe0 is DOWN: is the link up (ip link set up)?" {
		t.Error(err)
	}
}
