package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host/hosttest"
)

// FuzzCommandLine gives any words: nothing panics, an error has words and its
// exit code, a command line that makes no sense prints nothing, and what -j
// prints of objects is JSON.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"dev", "-jp dev show siw0", "-d dev", "dev set siw0 name \xff", "link show siw0/1", "show /1", "-j resource", "-jp res show qp lqpn 1-20 state rts,err",
		"-dd -j res show cm_id link mlx5_0/- src-port 0x1c06", "-r res show mr", "res set frmr_pools dev siw0 pinned 1:2:3:0 7", "statistic mr mrn 1",
		"stat qp set link siw0/1 auto type,pid on optional-counters on", "stat qp bind link mlx5_0/1 lqpn 17 cntn 9", "stat set link siw0/1 optional-counters a,,b",
		"-j system", "system set netns shared", "add siw1 type siw netdev dummy0", "del siw0", "devinfo -v", "-j doctor", "completion words -- dev set \"", "help stat qp", "-- dev -j", "-V", "-h",
	} {
		f.Add(strings.ReplaceAll(line, " ", "|"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "|")
		path, _, _ := followWords(args)
		isBatch := func(word string) bool { return strings.HasPrefix(word, "-") && strings.Contains(word, "b") }
		if c := path[len(path)-1]; c.raw && c.name() != "words" || slices.ContainsFunc(args, isBatch) {
			t.Skip("it reads files, or talks to peers")
		}
		for _, machine := range []func() *tool{
			func() *tool { t, _ := statReader(); return t },
			func() *tool { t, _ := resourceMachine(); return t },
			func() *tool { t, _, _ := informed(); return t },
		} {
			fuzzedLine(t, machine(), args)
		}
	})
}

func fuzzedLine(t *testing.T, tool *tool, args []string) {
	var stdout, stderr bytes.Buffer
	tool.stdin, tool.Stdout, tool.Stderr = strings.NewReader(""), &stdout, &stderr
	tool.Net, tool.Open, tool.OpenCM = &hosttest.Netdevs{All: []host.Netdev{hosttest.Loopback, hosttest.Dummy0}}, hosttest.Opens(), func() error { return nil }
	tool.Proc, tool.Sys, tool.Modules = hosttest.Tree(nil), hosttest.Tree(nil), hosttest.Tree(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what waits ends
	code := tool.run(ctx, args)
	if code < exitOK || code > exitUsage || code != exitOK && stderr.Len() == 0 || code == exitUsage && stdout.Len() > 0 {
		t.Fatalf("%q: %d\n%s%s", args, code, stdout.String(), stderr.String())
	}
	if tool.JSON && strings.HasPrefix(stdout.String(), "[") && !json.Valid(stdout.Bytes()) {
		t.Fatalf("%q: %s", args, stdout.String())
	}
}
