//go:build vm

package test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// perfTable reads perftest's table: the names of the columns, and a row a size.
func perfTable(t *testing.T, out output) (columns []string, rows [][]float64) {
	t.Helper()
	for _, line := range strings.Split(out.Out, "\n") {
		fields := regexp.MustCompile(`\s{2,}|\t|\s+`).Split(strings.TrimSpace(line), -1)
		switch {
		case strings.HasPrefix(fields[0], "#bytes"):
			columns = fields
		case columns != nil && !strings.HasPrefix(line, "--") && strings.TrimSpace(line) != "":
			var row []float64
			for _, f := range fields {
				v, err := strconv.ParseFloat(f, 64)
				if err != nil {
					t.Fatalf("%q in %+v", f, out)
				}
				row = append(row, v)
			}
			rows = append(rows, row)
		}
	}
	return columns, rows
}

// TestPerfPeers is every test between perftest's programs and ours, both ways
// round: both succeed, and print the same columns.
//
// C does not sleep here: of its -e on rxe an event gets lost now and then.
func TestPerfPeers(t *testing.T) {
	for _, test := range []struct {
		link        perfLink
		name, lines string // separated by |
	}{
		{perfRxe, "send lat", "|-c UD|-c UC -s 3000|-n 5 -a -c UD"},
		{perfRxe, "write lat", "|-c UC -s 100"},
		{perfRxe, "read lat", "-s 4096"},
		{perfRxe, "atomic lat", ""},
		{perfRxe, "send bw", "-s 4096 -q 3|-c UD|-b -s 100 -Q 5|-c UC -s 1000"},
		{perfRxe, "write bw", "-l 10 -q 2|-b -s 100|-s 1024 --report_gbits"},
		{perfRxe, "read bw", "-o 4|-b -q 2"},
		{perfRxe, "atomic bw", "-A CMP_AND_SWAP"},
		{perfRxeCM, "send lat", "|-c UD"},
		{perfRxeCM, "send bw", "-c UD"},
		{perfRxeCM, "read bw", "-q 2"},
		{perfSiwCM, "send lat", "|-n 5 -a"},
		{perfSiwCM, "write lat", ""},
		{perfSiwCM, "read lat", "-s 100"},
		{perfSiwCM, "send bw", "-r 6|-b -s 1000 -t 10|-n 5 -a"},
		{perfSiwCM, "write bw", "-b|-n 5 -q 2 -a"},
		{perfSiwCM, "read bw", "-t 3"},
	} {
		for _, line := range strings.Split(test.lines, "|") {
			for _, pair := range [][2]string{{"C", "Go"}, {"Go", "C"}} {
				t.Run(fmt.Sprintf("%s: %s %s: %s serves %s", test.link.name, test.name, line, pair[0], pair[1]), func(t *testing.T) {
					test.link.up(t)
					noLeak(t)
					perfMeets(t, test.link, test.name, "-n 20 "+line, pair)
				})
			}
		}
	}
}

func perfMeets(t *testing.T, l perfLink, name, line string, pair [2]string) {
	t.Helper()
	serverOut, clientOut := l.play(t, l.perf(pair[0], name, line), l.perf(pair[1], name, line))
	if l == perfSiwCM && pair[1] == "C" && strings.Contains(serverOut.Err, "receive the version") {
		// siw's accepting side can overlook what a client says at once, and C's
		// can't be told to prove the connection (rdmacm/conn_settle.go).
		t.Logf("once more: %s", serverOut.Err)
		serverOut, clientOut = l.play(t, l.perf(pair[0], name, line), l.perf(pair[1], name, line))
	}
	if serverOut.Code != 0 || clientOut.Code != 0 {
		t.Fatalf("server %+v\nclient %+v", serverOut, clientOut)
	}
	columns, rows := perfTable(t, serverOut)
	clientColumns, clientRows := perfTable(t, clientOut)
	if name == "read lat" || name == "atomic lat" {
		columns, rows = clientColumns, nil // its server prints none
	}
	if diff := cmp.Diff(columns, clientColumns); diff != "" || len(clientRows) == 0 {
		t.Errorf("%s\nserver %s\nclient %s", diff, serverOut.Out, clientOut.Out)
	}
	for i, row := range clientRows {
		// A server that lends its memory prints the last size only.
		if len(rows) == len(clientRows) && (rows[i][0] != row[0] || rows[i][1] != row[1]) {
			t.Errorf("server %v, client %v", rows[i], row)
		}
	}
}
