//go:build vm

package test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/uverbs"
)

var pingpongKinds = []string{"rc", "uc", "ud", "srq"}

// pingpong is C's program of a kind, with the GID index that it needs, or ours.
func pingpong(t *testing.T, program, kind, line string) *exec.Cmd {
	t.Helper()
	words := []string{rdmalinkBin, "pingpong", kind}
	if program == "C" {
		words = []string{"ibv_" + kind + "_pingpong", "-g", fmt.Sprint(rxeGIDIndex(t, rxeIPv4))}
	}
	words = append(words, strings.Fields("-d "+rxeLink+" "+line)...)
	return exec.Command(words[0], words[1:]...)
}

// rxeGIDIndex finds the index of the GID of an address.
func rxeGIDIndex(t *testing.T, addr string) uint32 {
	t.Helper()
	dev := must(uverbs.Open(rxeLink))(t)
	defer dev.Close()
	return (&rxeDevice{Device: dev, t: t}).gidOf(addr).Index
}

// pingpongPort is the programs' default.
const pingpongPort = 18515

// playPingpong runs server and client to their end.
func playPingpong(t *testing.T, server, client *exec.Cmd) (serverOut, clientOut output) {
	t.Helper()
	running := servePort(t, server, pingpongPort)
	clientOut = launch(t, client).end()
	return running.end(), clientOut
}

// pingponged is playPingpong where both succeed and print the same as C's
// programs do among themselves.
func pingponged(t *testing.T, server, client *exec.Cmd) (serverOut, clientOut output) {
	t.Helper()
	serverOut, clientOut = playPingpong(t, server, client)
	for _, out := range []output{serverOut, clientOut} {
		if out.Code != 0 || out.Err != "" {
			t.Errorf("%q and %q:\n%+v\n%+v", server.Args, client.Args, serverOut, clientOut)
		}
	}
	if diff := cmp.Diff(addressesOf(serverOut.Out, "local"), addressesOf(clientOut.Out, "remote")); diff != "" {
		t.Errorf("what the server is, and what the client takes it for: %s", diff)
	}
	if diff := cmp.Diff(addressesOf(clientOut.Out, "local"), addressesOf(serverOut.Out, "remote")); diff != "" {
		t.Errorf("what the client is, and what the server takes it for: %s", diff)
	}
	return serverOut, clientOut
}

// addressesOf are the addresses that an end printed, without the colon that
// ibv_ud_pingpong has in the place of a comma.
func addressesOf(text, side string) (all []string) {
	for _, line := range strings.Split(text, "\n") {
		if what, address, _ := strings.Cut(line, ":"); strings.TrimSpace(what) == side+" address" {
			all = append(all, strings.Replace(strings.TrimSpace(address), ": GID", ", GID", 1))
		}
	}
	return all
}

var pingpongNumbers = regexp.MustCompile(`(QPN|PSN) 0x[0-9a-f]{6}|[0-9]+\.[0-9]{2} `)

// withoutNumbers removes the numbers that change from run to run.
func withoutNumbers(text string) string { return pingpongNumbers.ReplaceAllString(text, "$1 N ") }

// TestPingpong is every kind, between C and Go both ways and between two of ours,
// sleeping and polling: each end prints the text that C prints in its place, numbers
// apart. The first line goes round the receive queue more than twice. The data is
// checked by both ends.
//
// No message is longer than 64 packets. rxe lets no more be in flight, and on UC
// can stop for good in a longer message, from either program: when the last packet
// is gone between its look at their number and its note that it waits. RC goes on
// with a retry.
func TestPingpong(t *testing.T) {
	rxeFabric(t)
	for _, kind := range fewElsewhere(pingpongKinds, 2) {
		for _, line := range fewElsewhere([]string{"-c -e -n 100 -r 40", "-c -n 20 -s 50000", "-c -n 30 -s 1"}, 1) {
			if kind == "ud" {
				line = strings.Replace(line, "-s 50000", "-s 700", 1) // the MTU is 1024
			}
			var wantServer, wantClient string
			for _, pair := range fewElsewhere([][2]string{{"C", "Go"}, {"Go", "C"}, {"Go", "Go"}}, 2) {
				t.Run(fmt.Sprintf("%s %s: %s serves %s", kind, line, pair[0], pair[1]), func(t *testing.T) {
					noLeak(t)
					serverOut, clientOut := pingponged(t, pingpong(t, pair[0], kind, line), pingpong(t, pair[1], kind, line+" 127.0.0.1"))
					server, client := withoutNumbers(serverOut.Out), withoutNumbers(clientOut.Out)
					if wantServer == "" {
						wantServer, wantClient = server, client
					}
					if diff := cmp.Diff(wantServer, server) + cmp.Diff(wantClient, client); diff != "" || !strings.Contains(server, "GID ::ffff:"+rxeIPv4) {
						t.Errorf("not what C prints:\n%s%s", diff, server)
					}
				})
			}
		}
	}
}
