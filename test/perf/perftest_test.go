//go:build vm

package perf

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/perftest"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/verbs"
)

// perftestPort is the programs' default.
const perftestPort = 18515

// TestPerftestHandshake is the client of perftest's servers that only lend their
// memory, in all but the traffic: the QPs that it announces do not exist, and
// on rxe nobody misses them. The servers end well, and print the announced values.
func TestPerftestHandshake(t *testing.T) {
	kit.Only612(t)
	kit.RxeFabric(t)
	index := rxeGIDIndex(t, kit.RxeIPv4)
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
				line := fmt.Sprintf("-d %s -x %d -p %d", kit.RxeLink, index, perftestPort)
				if !test.Latency {
					line += fmt.Sprintf(" -q %d", qps)
				}
				server := kit.ServePort(t, exec.Command(test.String(), strings.Fields(line)...), perftestPort)
				if err := shakeHands(t, test, qps); err != nil {
					t.Error(err)
				}
				out := server.End()
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
	ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
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
	gid := kit.OpenRxe(t).GID.GID
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

// perftestRow is a line of the table that perftest and rdmalink perf print.
type perftestRow struct {
	size, iters int
	figures     []float64
}

// perftestRows are those of an end's output.
func perftestRows(t *testing.T, text string) (rows []perftestRow) {
	t.Helper()
	table := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, " #bytes"):
			table = true
		case strings.HasPrefix(line, "----"):
			table = false
		case table:
			rows = append(rows, parsePerftestRow(t, line))
		}
	}
	return rows
}

// perftestColumns are the names of the columns, with single spaces.
func perftestColumns(text string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " #bytes") {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return ""
}

func parsePerftestRow(t *testing.T, line string) perftestRow {
	t.Helper()
	var numbers []float64
	for _, word := range strings.Fields(line) {
		n, err := strconv.ParseFloat(strings.TrimPrefix(word, "-"), 64) // C's deviation is -nan at times
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		numbers = append(numbers, n)
	}
	if len(numbers) < 4 {
		t.Fatalf("%q is no row of the table", line)
	}
	return perftestRow{int(numbers[0]), int(numbers[1]), numbers[2:]}
}

// figure is an average: of a latency, or what there is of a bandwidth, which may be
// 0.00 for small messages, and a message rate, which may be 0.000000 for large ones.
func (r perftestRow) figure() float64 {
	switch len(r.figures) {
	case 3: // peak, average, rate
		return r.figures[1] + r.figures[2]
	case 7: // min, max, typical, average, deviation, 99 %, 99.9 %
		return r.figures[3]
	}
	return r.figures[0] + r.figures[1] // -D: average, rate
}

// perftestRun is a test that an end of perftest and one of rdmalink play.
type perftestRun struct {
	what  string // verb and measure
	line  string // options of both
	onlyC string // of C's end alone
	rows  int    // 0: one
}

// perftestByHand are the runs without rdma_cm. UC and UD bandwidth sends no more
// than the server has receives for; rxe drops the rest. No message is
// longer than 64 packets (see TestPingpong), but with -a.
var perftestByHand = []perftestRun{
	{what: "send lat", line: "-n 30"},
	{what: "send lat", line: "-n 20 -c UC -s 5000", onlyC: "-m 512"},
	{what: "send lat", line: "-n 5 -c UD -a", rows: 10},
	{what: "send lat", line: "-D 1"},
	{what: "send bw", line: "-n 300 -s 4096 -q 2 -Q 5"},
	{what: "send bw", line: "-n 200 -s 2000 -c UC"},
	{what: "send bw", line: "-n 20 -c UD -s 1000 -b"},
	{what: "send bw", line: "-n 300 -s 100 -b -q 3"},
	{what: "send bw", line: "-D 1 -s 1000 -b"},
	{what: "write lat", line: "-n 30"},
	{what: "write lat", line: "-n 30 -c UC -s 3000"},
	{what: "write bw", line: "-n 300 -s 1000 -l 10 --report_gbits"},
	{what: "write bw", line: "-n 200 -s 1000 -c UC -q 2"},
	{what: "write bw", line: "-n 200 -s 1000 -b", onlyC: "-N"},
	{what: "write bw", line: "-D 1 -s 1000 -b"},
	{what: "read lat", line: "-n 30 -s 5000"},
	{what: "read bw", line: "-n 200 -s 4096 -q 2", onlyC: "-o 3"},
	{what: "read bw", line: "-n 200 -s 64 -b"},
	{what: "atomic lat", line: "-n 30"},
	{what: "atomic bw", line: "-n 200 -q 2"},
	{what: "atomic bw", line: "-n 200 -b -A CMP_AND_SWAP"},
}

// perftestByCM are those with it that iWARP has as well.
var perftestByCM = []perftestRun{
	{what: "send lat", line: "-n 30"},
	{what: "send bw", line: "-n 2000 -s 500 -q 2"},
	{what: "send bw", line: "-n 1000 -s 100 -b"},
	{what: "write lat", line: "-n 30 -s 5000"},
	{what: "write bw", line: "-n 300 -s 1000 -q 2"},
	{what: "write bw", line: "-n 300 -s 1000 -b"},
	{what: "read lat", line: "-n 30"},
	{what: "read bw", line: "-n 200 -s 4096"},
}

// perftestByIWARP lists options with another meaning there: with few receives the
// sender waits for the count of those that the receiver has posted again; and all sizes.
var perftestByIWARP = []perftestRun{
	{what: "send bw", line: "-n 300 -s 100 -r 6 -t 10"},
	{what: "write bw", line: "-n 5 -a", rows: 23},
}

// perftestByRoCE are those that only rxe has.
var perftestByRoCE = []perftestRun{
	{what: "send lat", line: "-n 20 -c UD"},
	{what: "send bw", line: "-n 200 -s 1000 -c UD"},
	{what: "send bw", line: "-n 100 -s 1000 -c UD -b -q 2"},
	{what: "atomic lat", line: "-n 30"},
	{what: "atomic bw", line: "-n 200 -q 2 -b"},
}

// TestPerftest has perftest as server and as client, its QPs connected by hand.
func TestPerftest(t *testing.T) {
	kit.RxeFabric(t)
	index := fmt.Sprint(" -x ", rxeGIDIndex(t, kit.RxeIPv4))
	runs := slices.Clone(kit.FewElsewhere(perftestByHand, 2))
	for i := range runs {
		runs[i].onlyC += index
		runs[i].line += patientRxe
	}
	playPerftest(t, runs, kit.RxeLink, "127.0.0.1")
}

// TestPerftestCM has it connect with rdma_cm, which carries the ends' words too.
func TestPerftestCM(t *testing.T) {
	kit.RxeFabric(t)
	playPerftest(t, withCM(kit.FewElsewhere(slices.Concat(perftestByCM, perftestByRoCE), 1)), kit.RxeLink, kit.RxeIPv4)
}

func withCM(runs []perftestRun) []perftestRun {
	for i := range runs {
		runs[i].line += " -R"
	}
	return runs
}

// TestPerftestSiw is the same on iWARP, where ib_send_bw's receiver reports its
// progress to the sender.
func TestPerftestSiw(t *testing.T) {
	kit.Fabric(t)
	playPerftest(t, withCM(kit.FewElsewhere(slices.Concat(perftestByCM, perftestByIWARP), 1)), kit.DummyLink, kit.DummyIPv4)
}

// playPerftest makes each program the server once for the most telling runs, and then by turns.
func playPerftest(t *testing.T, runs []perftestRun, link, address string) {
	t.Helper()
	servers := []string{"C", "Go"}
	for i, r := range runs {
		if i < 2 {
			r.serve(t, link, address, servers...)
		} else {
			r.serve(t, link, address, servers[i%2])
		}
	}
}

// serve has each of servers be server, and the other client.
func (r perftestRun) serve(t *testing.T, link, address string, servers ...string) {
	t.Helper()
	for _, server := range servers {
		client := map[string]string{"C": "Go", "Go": "C"}[server]
		t.Run(fmt.Sprintf("%s %s: %s serves %s", r.what, r.line, server, client), func(t *testing.T) {
			kit.NoLeak(t)
			r.check(t, r.bestOf(t, func() tried {
				serverOut, clientOut := r.play(t, r.end(server, link), r.end(client, link, address))
				return tried{serverOut, clientOut}
			}))
		})
	}
}

// tried are the ends of one try.
type tried struct{ server, client kit.Output }

// gaveUp reports whether one of them had no time to measure.
func (o tried) gaveUp() bool {
	said := o.server.Err + o.client.Err
	return strings.Contains(said, perftestClock) || strings.Contains(said, perfNothingDone)
}

// rows are how many both have printed.
func (o tried) rows(t *testing.T) int {
	return min(len(perftestRows(t, o.server.Out)), len(perftestRows(t, o.client.Out)))
}

// bestOf plays until nobody gives up, or returns the try that went farthest.
func (r perftestRun) bestOf(t *testing.T, play func() tried) (best tried) {
	most := -1
	kit.Eventually(func() bool {
		o := play()
		if !o.gaveUp() {
			best = o
			return true
		}
		if n := o.rows(t); n > most {
			best, most = o, n
		}
		return false
	})
	return best
}

// perftestClock is what perftest says that gives up because it could not find out
// how fast the CPU's clock is: it was interrupted too much, as happens in a busy
// virtual machine. It tries that for each row, and goes on where it measures latency.
const perftestClock = "Can't produce a report"

// end is the command of one side.
func (r perftestRun) end(program, link string, more ...string) *exec.Cmd {
	words := append([]string{kit.RdmalinkBin, "perf"}, strings.Fields(r.what)...)
	if program == "C" {
		words = append([]string{"ib_" + strings.ReplaceAll(r.what, " ", "_")}, strings.Fields(r.onlyC)...)
	}
	words = append(append(words, strings.Fields("-d "+link+" "+r.line)...), more...)
	return exec.Command(words[0], words[1:]...)
}

// play runs both ends to their end.
func (r perftestRun) play(t *testing.T, server, client *exec.Cmd) (serverOut, clientOut kit.Output) {
	t.Helper()
	var serving *kit.Running
	if strings.Contains(r.line, "-R") {
		serving = kit.ServeCM(t, server, strconv.Itoa(perftestPort))
	} else {
		serving = kit.ServePort(t, server, perftestPort)
	}
	clientOut = kit.Launch(t, client).End()
	return serving.End(), clientOut
}

// check wants both ends to have ended well and printed as many rows as they
// should, of the same sizes and counts; an idle server has none.
//
// Of a test of many sizes in which perftest never came to the end, for want of an even clock,
// the rows up to there are checked.
func (r perftestRun) check(t *testing.T, o tried) {
	t.Helper()
	serverOut, clientOut := o.server, o.client
	if n := o.rows(t); n > 0 && r.rows > 1 && o.gaveUp() {
		t.Logf("perftest gave up each time, at best after %d of %d rows:\n%s", n, r.rows, serverOut.Err+clientOut.Err)
		r.compare(t, perftestRows(t, serverOut.Out)[:n], perftestRows(t, clientOut.Out)[:n])
		return
	}
	if serverOut.Code != 0 || clientOut.Code != 0 {
		t.Fatalf("server: %+v\nclient: %+v", serverOut, clientOut)
	}
	clientRows, serverRows := perftestRows(t, clientOut.Out), perftestRows(t, serverOut.Out)
	want := max(r.rows, 1)
	served := want
	switch r.what {
	case "read lat", "atomic lat":
		served = 0
	case "write bw", "read bw", "atomic bw":
		if !strings.Contains(r.line, "-b") {
			served = 1 // the client's last
		}
	}
	if len(clientRows) != want || len(serverRows) != served {
		t.Fatalf("%d and %d rows, want %d and %d:\n%s\n%s", len(serverRows), len(clientRows), served, want, serverOut.Out, clientOut.Out)
	}
	if s, c := perftestColumns(serverOut.Out), perftestColumns(clientOut.Out); served > 0 && (s == "" || s != c) {
		t.Errorf("columns %q and %q", s, c)
	}
	r.compare(t, serverRows, clientRows[want-served:])
}

// compare checks that no figure is missing, and that both ends report the same sizes and iterations.
func (r perftestRun) compare(t *testing.T, server, client []perftestRow) {
	t.Helper()
	for i, c := range client {
		s := server[i]
		if c.size != s.size || c.iters != s.iters && !strings.Contains(r.line, "-D") {
			t.Errorf("%d messages of %d bytes at the server, %d of %d at the client", s.iters, s.size, c.iters, c.size)
		}
		if s.iters <= 0 || c.iters <= 0 || s.figure() <= 0 || c.figure() <= 0 {
			t.Errorf("server %v, client %v", s, c)
		}
	}
}
