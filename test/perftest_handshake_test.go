//go:build vm

package test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/verbs"
)

// perftestPort is the programs' default.
const perftestPort = 18515

// TestPerftestHandshake is the client of perftest's servers that only lend their
// memory, in all but the traffic: the QPs that it announces do not exist, and
// on rxe nobody misses them. The servers end well, and print the announced values.
func TestPerftestHandshake(t *testing.T) {
	only612(t)
	rxeFabric(t)
	index := rxeGIDIndex(t, rxeIPv4)
	for _, test := range []perftest.Test{
		{Verb: perftest.Read, Latency: true},
		{Verb: perftest.Atomic, Latency: true},
		{Verb: perftest.Write},
		{Verb: perftest.Read},
		{Verb: perftest.Atomic},
	} {
		for _, qps := range []int{1, 3} {
			if test.Latency && qps > 1 {
				continue
			}
			t.Run(fmt.Sprintf("%v with %d", test, qps), func(t *testing.T) {
				line := fmt.Sprintf("-d %s -x %d -p %d", rxeLink, index, perftestPort)
				if !test.Latency {
					line += fmt.Sprintf(" -q %d", qps)
				}
				server := servePort(t, exec.Command(test.String(), strings.Fields(line)...), perftestPort)
				if err := shakeHands(t, test, qps); err != nil {
					t.Error(err)
				}
				out := server.end()
				if out.Code != 0 {
					t.Errorf("%v: %+v", server.Args, out)
				}
				if want := "1234.50"; !test.Latency && !strings.Contains(out.Out, want) {
					t.Errorf("no %s from %v:\n%s", want, server.Args, out.Out)
				}
			})
		}
	}
}

// shakeHands is a whole session of a client.
func shakeHands(t *testing.T, test perftest.Test, qps int) error {
	t.Helper()
	conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", perftestPort))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	s := perftest.OverTCP(conn, perftest.Client, test)
	agreed, err := s.Greet(ctx, perftest.System{CycleBuffer: 8192, CacheLine: 64, MTU: verbs.MTU512})
	if err != nil {
		return err
	}
	if want := (perftest.System{Version: perftest.Version, CycleBuffer: 8192, CacheLine: 64, MTU: verbs.MTU512}); agreed != want {
		t.Errorf("agreed on %+v", agreed)
	}
	own := make([]perftest.Endpoint, qps)
	gid := openRxe(t).gid.GID
	for i := range own {
		own[i] = perftest.Endpoint{OutReads: 1, QPN: uint32(0x7f0000 + i), PSN: 0x123456, RKey: 1, VAddr: 0x1000, GID: gid}
	}
	peer, err := s.Meet(ctx, own)
	if err != nil {
		return err
	}
	for _, e := range peer {
		if e.QPN == 0 || e.RKey == 0 || e.VAddr == 0 || e.OutReads == 0 || e.GID != gid {
			t.Errorf("the peer is %+v", e)
		}
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	if err := s.Begin(ctx); err != nil {
		return err
	}
	found := perftest.Report{Size: 4096, Iterations: 77, Peak: 2345.5, Average: 1234.5, Rate: 0.25}
	if heard, err := s.End(ctx, found); err != nil || heard != nil {
		return fmt.Errorf("%v, %w", heard, err)
	}
	heard, err := s.Finish(ctx, found)
	if (heard == nil) != test.Latency {
		t.Errorf("heard %v", heard)
	}
	return err
}
