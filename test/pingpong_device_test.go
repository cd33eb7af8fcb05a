//go:build vm

package test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/verbs"
)

// TestPingpongFirstDevice: without -d siw is passed over, with it the error says
// what works there.
func TestPingpongFirstDevice(t *testing.T) {
	only612(t)
	rxeFabric(t)
	if hasSiw {
		fabric(t)
		for _, kind := range pingpongKinds {
			failed(t, runCommand(t, exec.Command(rdmalinkBin, "pingpong", kind, "-d", dummyLink)),
				dummyLink+": iWARP connects QPs through rdma_cm only: use rdmalink rping there")
		}
	}
	noLeak(t)
	server := exec.Command(rdmalinkBin, "pingpong", "rc", "-n", "10")
	pingponged(t, server, exec.Command(rdmalinkBin, "pingpong", "rc", "-n", "10", "localhost"))
}

// TestPingpongODP: on-demand paging where the device has it, both ways with C.
func TestPingpongODP(t *testing.T) {
	odp := openRxe(t).attr.ODP
	noLeak(t)
	for _, kind := range []string{"rc", "srq"} {
		need := verbs.ODPSend | verbs.ODPRecv
		if kind == "srq" {
			need = verbs.ODPSend | verbs.ODPSRQRecv
		}
		if odp.General&verbs.ODPSupport == 0 || odp.RC&need != need {
			failed(t, runCommand(t, pingpong(t, "Go", kind, "-o")), "-o: "+rxeLink+" has no on-demand paging for this")
			continue
		}
		for _, pair := range [][2]string{{"C", "Go"}, {"Go", "C"}, {"Go", "Go"}} {
			line := func(program string) string {
				if program == "Go" && kind == "rc" {
					return "-o -c -n 20 -s 100000 -P " // C can't prefetch on rxe
				}
				return "-o -c -n 20 -s 100000 "
			}
			pingponged(t, pingpong(t, pair[0], kind, line(pair[0])), pingpong(t, pair[1], kind, line(pair[1])+"127.0.0.1"))
		}
	}
}

// TestPingpongJSON holds the report of either end.
func TestPingpongJSON(t *testing.T) {
	only612(t)
	rxeFabric(t)
	noLeak(t)
	type place struct {
		LID, QPN, PSN uint32
		GID           string
	}
	type report struct {
		Kind, Role, Device     string
		Local, Remote          []place
		Size, Exchanges, Bytes int
		Seconds                float64
	}
	read := func(out output) (r report) {
		d := json.NewDecoder(strings.NewReader(out.Out))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil || r.Seconds <= 0 || strings.Count(out.Out, "\n") != 1 || out.Code != 0 || out.Err != "" {
			t.Errorf("%v: %+v", err, out)
		}
		r.Seconds = 0
		return r
	}
	const line = "-j -n 30 -q 3 -s 10 "
	serverOut, clientOut := playPingpong(t, pingpong(t, "Go", "srq", line), pingpong(t, "Go", "srq", line+rxeIPv4))
	server, client := read(serverOut), read(clientOut)
	want := report{Kind: "srq", Role: "server", Device: rxeLink, Local: client.Remote, Remote: client.Local, Size: 10, Exchanges: 30, Bytes: 600}
	if diff := cmp.Diff(want, server); diff != "" || len(want.Local) != 3 || len(want.Remote) != 3 || want.Local[2].GID != "::ffff:"+rxeIPv4 {
		t.Error(diff, want)
	}
	want.Role, want.Local, want.Remote = "client", want.Remote, want.Local
	if diff := cmp.Diff(want, client); diff != "" {
		t.Error(diff)
	}
}
