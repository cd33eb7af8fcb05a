package cm

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

// TestOptions checks that the letters are those of C's programs.
func TestOptions(t *testing.T) {
	for _, test := range []struct {
		p    *Program
		line string
		want options
	}{
		{ucmatose, "", options{port: 7471, portSpace: verbs.PortSpaceTCP, connections: 1, count: 10, size: 100, tos: -1, ackTimeout: -1}},
		{ucmatose, "-s h -b a -f ipv6 -P IB -c 3 -C4 -S 5 -t 0xff -p 6 -m -a 14 -j", options{server: "h", bind: "a", numeric: true, port: 6,
			portSpace: verbs.PortSpaceIB, connections: 3, count: 4, size: 5, tos: 255, migrate: true, ackTimeout: 14, asJSON: true}},
		{ucmatose, "-f name -P tcp -S 0", options{port: 7471, portSpace: verbs.PortSpaceTCP, connections: 1, tos: -1, ackTimeout: -1}},
		{udaddy, "-s h -P udp -p 0x111 -c 2 -t 0", options{server: "h", port: 7174, portSpace: verbs.PortSpaceUDP, connections: 2, count: 10, size: 100}},
		{mckey, "-m g -s -b a -o -l -p 273", options{group: "g", bind: "a", connections: 1, count: 10, size: 100, sender: true, sendOnly: true, noLoopback: true}},
		{cmtime, "-s h -c 5 -r 0 -t 9", options{server: "h", port: 7471, portSpace: verbs.PortSpaceTCP, connections: 5, limit: 9}},
		{rdmaClient, "-p 1", options{server: "127.0.0.1", port: 1}},
		{rdmaServer, "-s a", options{bind: "a", port: 7471}},
		{rdmaXClient, "-c r -s h", options{server: "h", port: 7471}},
		{rdmaXServer, "-c RC -p 5", options{port: 5}},
		{rdmaXClient, "-c r -c x", options{server: "127.0.0.1", port: 7471, portSpace: verbs.PortSpaceIB, qpType: verbs.QPTypeXRCInitiator}},
		{rdmaXServer, "-c XRC", options{port: 7471, portSpace: verbs.PortSpaceIB, qpType: verbs.QPTypeXRCTarget}},
	} {
		got, err := test.p.parse(strings.Fields(test.line))
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(options{})); err != nil || diff != "" {
			t.Errorf("%s %s: %v\n%s", test.p.Name, test.line, err, diff)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"ucmatose x":           `unexpected argument "x"`,
		"ucmatose -f gid":      "-f gid: addresses of family AF_IB are InfiniBand's",
		"ucmatose -f x":        `"x": expected one of name, ip, ipv6, gid`,
		"ucmatose -P udp":      `"udp": expected one of tcp, ib`,
		"ucmatose -c 0":        `"0": the number of connections must be a number from 1 to 1048576`,
		"ucmatose -a 32":       `"32": the exponent must be a number from 0 to 31`,
		"udaddy -P ipoib":      "ipoib: this port space needs a subnet manager",
		"udaddy -p 2":          "ipoib: this port space needs a subnet manager",
		"udaddy -P x":          `"x": expected one of udp, ipoib`,
		"udaddy -p 3":          `"3": expected one of 0x111, 0x2`,
		"mckey":                "the group's address is missing: -m ADDR",
		"mckey -M ff12::1":     "-M: group GIDs are for InfiniBand only",
		"rdma_xserver -c u":    `"u": expected one of r, x`,
		"rdma_xserver -s host": `"-s": expected one of -p`,
	} {
		name, rest, _ := strings.Cut(line, " ")
		for _, p := range Programs {
			if p.Name != name {
				continue
			}
			var usage cli.UsageError
			if _, err := p.parse(strings.Fields(rest)); !errors.As(err, &usage) || !strings.HasPrefix(usage.Text, want) {
				t.Errorf("%s: %v, want %s", line, err, want)
			}
		}
	}
}

// TestDetails checks that the help lists each option.
func TestDetails(t *testing.T) {
	for _, p := range Programs {
		for _, r := range p.table {
			if !strings.Contains(p.Details(), "  -"+string(r.Letter)+", --"+r.Long) {
				t.Errorf("%s: nothing about -%c", p.Name, r.Letter)
			}
		}
		if !strings.HasSuffix(p.Details(), "is invalid.") || strings.Contains(p.Details(), "---") {
			t.Errorf("%s:%s", p.Name, p.Details())
		}
	}
}
