//go:build vm

package test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// perfPort is perftest's, and ours.
const perfPort = "18515"

// perfLink is where a test runs: a device, and how its ends meet.
type perfLink struct {
	name, device, host string
	cm                 bool
}

var (
	perfRxe   = perfLink{"rxe", rxeLink, "127.0.0.1", false}
	perfRxeCM = perfLink{"rxe -R", rxeLink, rxeIPv4, true}
	perfSiwCM = perfLink{"siw -R", dummyLink, dummyIPv4, true}
)

// patientRxe has RC wait 4 seconds for an acknowledgement, not 67 ms. Nothing is lost
// here, but a busy machine can be late, and rxe does not always survive that it sends
// a message of several packets again; see stream.
const patientRxe = " -u 20"

// perf is perftest's program for a test such as "send lat", or ours.
func (l perfLink) perf(program, test, line string) *exec.Cmd {
	words := []string{rdmalinkBin, "perf"}
	if program == "C" {
		words = []string{"ib_" + strings.ReplaceAll(test, " ", "_")}
		test = "-F"
	}
	if l.cm {
		line += " -R"
	} else {
		line += patientRxe
	}
	words = append(words, strings.Fields(test+" -d "+l.device+" "+line)...)
	return exec.Command(words[0], words[1:]...)
}

// serve starts a server and waits until it listens.
func (l perfLink) serve(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	if l.cm {
		return serveCM(t, cmd, perfPort)
	}
	return servePort(t, cmd, 18515)
}

// play runs a server and a client to their end.
func (l perfLink) play(t *testing.T, server, client *exec.Cmd) (serverOut, clientOut output) {
	t.Helper()
	client.Args = append(client.Args, l.host)
	running := l.serve(t, server)
	clientOut = launch(t, client).end()
	return running.end(), clientOut
}

// up makes the link.
func (l perfLink) up(t *testing.T) {
	if l.device == rxeLink {
		rxeFabric(t)
	} else {
		fabric(t)
	}
}

// perfJSON is what -j prints.
type perfJSON struct {
	Test, Role, Device, Driver, Connection, Error string
	CM                                            bool `json:"rdma_cm"`
	Events                                        bool
	Local, Remote                                 []struct {
		LID, QPN, PSN uint32
		GID           string
	}
	Results []map[string]any
}

func decodePerf(t *testing.T, out output) (j perfJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(out.Out), &j); err != nil || strings.Count(out.Out, "\n") != 1 {
		t.Fatalf("%v: %+v", err, out)
	}
	return j
}

// has reports whether a result has these figures, all greater than zero. Samples may be
// equal where the clock is coarse.
func (j perfJSON) has(t *testing.T, i int, names ...string) {
	t.Helper()
	for _, name := range names {
		if v, ok := j.Results[i][name].(float64); !ok || v <= 0 && name != "t_stdev_usec" {
			t.Errorf("%s: %s of result %d: %v", j.Test, name, i, j.Results[i])
		}
	}
}

var perfColumns = map[string][]string{
	"lat": {"size_bytes", "iterations", "t_min_usec", "t_max_usec", "t_typical_usec", "t_avg_usec", "t_stdev_usec", "p99_usec", "p99_9_usec"},
	"bw":  {"size_bytes", "iterations", "bw_average_bytes_per_sec", "msg_rate_per_sec"},
}

// perfed runs rdmalink perf at both ends and checks the output.
func perfed(t *testing.T, l perfLink, test, line string) (server, client perfJSON) {
	t.Helper()
	noLeak(t)
	serverOut, clientOut := l.play(t, l.perf("Go", test, line+" -j"), l.perf("Go", test, line+" -j"))
	if serverOut.Code != 0 || clientOut.Code != 0 || serverOut.Err+clientOut.Err != "" {
		t.Fatalf("%s %s: server %+v, client %+v", test, line, serverOut, clientOut)
	}
	server, client = decodePerf(t, serverOut), decodePerf(t, clientOut)
	_, kind, _ := strings.Cut(test, " ")
	for _, j := range []perfJSON{server, client} {
		if j.Test != test || j.Device != l.device || j.CM != l.cm || j.Events != strings.Contains(line, "-e") {
			t.Errorf("%s %s: %+v", test, line, j)
		}
		for i := range j.Results {
			j.has(t, i, perfColumns[kind]...)
		}
	}
	if server.Role != "server" || client.Role != "client" || len(client.Results) == 0 {
		t.Errorf("%+v\n%+v", server, client)
	}
	if diff := cmp.Diff(server.Local, client.Remote) + cmp.Diff(server.Remote, client.Local); diff != "" {
		t.Errorf("%s %s: the ends take each other for somebody else:\n%s", test, line, diff)
	}
	return server, client
}

var perfTests = []string{"send lat", "write lat", "read lat", "atomic lat", "send bw", "write bw", "read bw", "atomic bw"}

// TestPerf is every test between two of ours, polling and sleeping, connected by
// hand and by rdma_cm.
func TestPerf(t *testing.T) {
	only612(t)
	for _, l := range fewElsewhere([]perfLink{perfRxe, perfSiwCM, perfRxeCM}, 2) {
		for n, test := range perfTests {
			if strings.HasPrefix(test, "atomic") && l == perfSiwCM {
				continue // siw has none
			}
			for i, wait := range []string{"", "-e"} {
				if i != (n+1)%2 && !onKernel("6.12") {
					continue // every other one is enough there
				}
				if wait != "" && test == "write lat" {
					continue // a WRITE makes no completion at the peer
				}
				t.Run(fmt.Sprintf("%s: %s %s", l.name, test, wait), func(t *testing.T) {
					l.up(t)
					_, client := perfed(t, l, test, "-n 20 "+wait)
					if got := client.Results[0]["iterations"]; got != 20.0 {
						t.Errorf("%v messages", got)
					}
				})
			}
		}
	}
}

// TestPerfServices are UC and UD, which SEND and WRITE have.
func TestPerfServices(t *testing.T) {
	only612(t)
	rxeFabric(t)
	for _, test := range []struct {
		link       perfLink
		name, line string
	}{
		{perfRxe, "send lat", "-c UC"}, {perfRxe, "send lat", "-c UD -s 1024"},
		{perfRxe, "write lat", "-c UC -s 3000"}, {perfRxe, "write bw", "-c UC"},
		{perfRxe, "send bw", "-c UC"}, {perfRxe, "send bw", "-c UD"}, {perfRxe, "send bw", "-c UD -b -q 2"},
		{perfRxeCM, "send lat", "-c UD"}, {perfRxeCM, "send bw", "-c UD -q 2"}, {perfRxeCM, "send bw", "-c UD -b -q 2 -e"},
	} {
		t.Run(test.link.name+" "+test.name+" "+test.line, func(t *testing.T) {
			perfed(t, test.link, test.name, "-n 20 "+test.line)
		})
	}
}
