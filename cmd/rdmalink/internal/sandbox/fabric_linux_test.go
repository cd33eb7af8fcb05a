package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fabricTool is a program of infiniband-diags, and by the same name ours.
type fabricTool struct {
	line string
	want string // in its output
}

// fabricTools are run on a fat tree with 16 hosts, whose node descriptions are h1 to h16. {LID} is the
// LID of h16.
var fabricTools = []fabricTool{
	{"ibstat", "State: Active"},
	{"ibstat -l", "mlx5_0"},
	{"ibaddr", "GID fe80::10:1 LID start"},
	{"ibnetdiscover", `"h16"`},
	{"ibnetdiscover -p", `'h16'`},
	{"ibnetdiscover -l", `"spine2"`},
	{"ibhosts", "Ca\t: 0x0000000000100000 ports 1 \"h1\""},
	{"iblinkinfo", "25.78125 Gbps Active/  LinkUp"},
	{"iblinkinfo -l", "25.78125 Gbps Active/  LinkUp"},
	{"smpquery nodeinfo {LID}", "Channel Adapter"},
	{"smpquery portinfo {LID} 1", "Active"},
	{"smpquery -D nodeinfo 0,1", "NodeType:........................Switch"},
	{"smpquery pkeys {LID} 1", "0xffff"},
	{"sminfo", "state 3 SMINFO_MASTER"},
	{"ibtracert 1 {LID}", `"h16"`},
	{"perfquery {LID} 1", "PortXmitPkts:\n"},
	{"perfquery -x {LID} 1", "PortXmitData:"},
	{"ibqueryerrors", "nodes checked, 0 bad nodes found"},
	{"saquery", "NodeDescription.........h16"},
	{"saquery -p --src-to-dst 1:{LID}", "dlid....................{LID}"},
	{"saquery -g", "MGID....................ff12:401b:ffff::ffff:ffff"},
}

// varying matches what differs from one run to the next, and what docs/fabric.md names.
var varying = regexp.MustCompile(`(?m)^# Topology file: .*$|activity count \d+|^LinkSpeedExt(Active|Supported|Enabled)2:.*\n|` +
	`(?P<kept>^Port(?:Xmit|Rcv|Unicast|Multicast)\w*(?:Data|Pkts):)\.+\d+$|^## (\(null\)|Thresholds: )$`)

// TestFabric runs C's tools and ours on a subnet in software by way of its umad nodes: with the
// subnet's own subnet manager, and with opensm, which brings it up.
func TestFabric(t *testing.T) {
	long(t)
	for _, sm := range []string{"own", "opensm"} {
		t.Run(sm, func(t *testing.T) {
			t.Parallel()
			fabricBothTools(t, sm == "opensm")
		})
	}
}

func fabricBothTools(t *testing.T, opensm bool) {
	dir := t.TempDir()
	own := rdmalink(t)
	options := []string{"--fabric", "fat-tree:8x2"}
	var script strings.Builder
	fmt.Fprintf(&script, "cd %s || exit 1\n", dir)
	if opensm {
		need(t, "opensm")
		if err := os.WriteFile(filepath.Join(dir, "conf"), []byte("force_log_flush TRUE\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		options = append(options, "--no-sm")
		script.WriteString("export OSM_TMP_DIR=. OSM_CACHE_DIR=.\nopensm -F conf -f log > opensm.out 2>&1 & pid=$!\n" +
			"until grep -q 'SUBNET UP' log; do kill -0 $pid || exit 1; sleep 0.1; done\n")
	}
	script.WriteString("lid=$(saquery | grep -B 14 'Description.*h16' | sed -n 's/.*lid\\.*//p')\necho $lid > lid\n")
	for i, tool := range fabricTools {
		name, _, _ := strings.Cut(tool.line, " ")
		need(t, name)
		line := strings.ReplaceAll(tool.line, "{LID}", "$lid")
		fmt.Fprintf(&script, "%s > c%d 2>&1 || echo exit $? >> c%d\n", line, i, i)
		if err := os.Symlink(own, filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		fmt.Fprintf(&script, "./%s > own%d 2>&1 || echo exit $? >> own%d\n", line, i, i)
	}
	if opensm {
		script.WriteString("kill $pid; wait $pid; true\n")
	}
	if out, err := inside(t, options, "sh", "-c", script.String()); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return varying.ReplaceAllString(string(b), "${kept}")
	}
	lid := strings.TrimSpace(read("lid"))
	for i, tool := range fabricTools {
		theirs := read(fmt.Sprint("c", i))
		if !strings.Contains(theirs, strings.ReplaceAll(tool.want, "{LID}", lid)) || strings.Contains(theirs, "exit ") {
			t.Errorf("%s: no %q in\n%s", tool.line, tool.want, theirs)
		}
		if diff := cmp.Diff(theirs, read(fmt.Sprint("own", i))); diff != "" {
			t.Errorf("%s: C's and ours differ: %s", tool.line, diff)
		}
	}
	// RMPP joins what doesn't fit into a MAD: one record a port.
	for i, tool := range fabricTools {
		if tool.line == "saquery" {
			if n := strings.Count(read(fmt.Sprint("c", i)), "NodeRecord dump:"); n != 32+12 {
				t.Errorf("saquery shows %d nodes, not 44", n)
			}
		}
	}
}

// TestFabricPing has both ends of ibping, C's and ours, on two hosts.
func TestFabricPing(t *testing.T) {
	long(t)
	need(t, "ibping")
	own := rdmalink(t) + " fabric ping"
	for _, ends := range [][2]string{{"ibping", "ibping"}, {own, "ibping"}, {"ibping", own}, {own, own}} {
		// h8 has LID 14. The client tries until the server is there.
		out, err := inside(t, []string{"--fabric", "fat-tree:4x2"}, "sh", "-c", fmt.Sprintf(
			"%s=h8 %s -S & until out=$(%s -c 1 -t 100 14 2>&1) && echo \"$out\" | grep -q ' 0%% packet loss'; do kill -0 $! || exit 1; done; echo \"$out\"; kill $!", hostVariable, ends[0], ends[1]))
		if err != nil || !strings.Contains(out, "1 packets transmitted, 1 received, 0% packet loss") || !strings.Contains(out, "(Lid 14)") {
			t.Errorf("%s, %s: %v\n%s", ends[0], ends[1], err, out)
		}
	}
}

// TestFabricVerbs checks that the device of an adapter has verbs. Its LID and state are those of the subnet, and
// programs on two hosts reach each other by LID.
func TestFabricVerbs(t *testing.T) {
	long(t)
	for _, program := range []string{"ibstat", "ibnetdiscover", "ibportstate", "ibv_devinfo", "ibv_asyncwatch", "ibv_rc_pingpong", "ib_write_bw"} {
		need(t, program)
	}
	options := []string{"--fabric", "fat-tree:4x2"}
	out, err := inside(t, options, "sh", "-c", "ibnetdiscover; export "+hostVariable+"=h8; ibstat; ibv_devinfo -v")
	for _, want := range []string{`"h8" lid 14 4xEDR`, "Base lid: 14\n", "CA 'mlx5_0'", "Port GUID: 0x000000000010000f\n", "port_lid:\t\t14\n", "PORT_ACTIVE", "sm_lid:\t\t\t1\n",
		"GID[  0]:\t\tfe80:0000:0000:0000:0000:0000:0010:000f\n", "node_guid:\t\t\t0000:0000:0010:000e\n", "25.0 Gbps (32)"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q: %v\n%s", want, err, out)
		}
	}
	// A client tries until the server is there.
	for _, line := range []string{"ibv_rc_pingpong -n 20", "ibv_ud_pingpong -n 20", "ib_write_bw -n 20", "ib_read_lat -n 20"} {
		line += " -p " + freePort(t)
		out, err := inside(t, options, "sh", "-c", fmt.Sprintf("%s=h8 %s & until client=$(%s localhost 2>&1); do kill -0 $! || exit 1; sleep 0.1; done; wait $! && echo \"$client\"", hostVariable, line, line))
		if err != nil || !regexp.MustCompile(`LID (0x0*1|1)\b`).MatchString(out) || !regexp.MustCompile(`LID (0x0*e|14)\b`).MatchString(out) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	// Port 2 of the switch with LID 8 leads to h8.
	file := filepath.Join(t.TempDir(), "events")
	out, err = inside(t, options, "sh", "-c", fmt.Sprintf(
		"%[1]s=h8 stdbuf -oL ibv_asyncwatch > %[2]s & until grep -q FD %[2]s; do kill -0 $! || exit 1; sleep 0.01; done; ibportstate 8 2 disable; until grep -q IBV_EVENT_PORT_ERR %[2]s; do kill -0 $! || exit 1; sleep 0.01; done; kill $!; %[1]s=h8 ibv_devinfo", hostVariable, file))
	if err != nil || !strings.Contains(out, "PORT_DOWN") {
		t.Errorf("a port that is disabled: %v\n%s", err, out)
	}
}

// TestFabricStates checks that sysfs follows the subnet: without a subnet manager the port has no LID.
func TestFabricStates(t *testing.T) {
	long(t)
	own := rdmalink(t)
	for _, test := range []struct {
		options []string
		state   string
	}{{nil, "State: Active"}, {[]string{"--no-sm"}, "State: Initializing"}} {
		out, err := inside(t, append([]string{"--fabric", "fat-tree:4x2"}, test.options...), own, "fabric", "ports")
		if err != nil || !strings.Contains(out, test.state) {
			t.Errorf("%v: %v\n%s", test.options, err, out)
		}
	}
	file := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(file, []byte("Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"B\"[2]\n\nHca 2 \"A\"\n[1] \"S\"[1]\n\nHca 2 \"B\"\n[2] \"S\"[2]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := inside(t, []string{"--fabric", file}, "env", hostVariable+"=B", own, "fabric", "ports")
	if err != nil || !strings.Contains(out, "Port 1:") || !strings.Contains(out, "Port 2:") || !strings.Contains(out, "State: Active") || !strings.Contains(out, "State: Down") {
		t.Errorf("the second of two ports: %v\n%s", err, out)
	}
	for topology, want := range map[string]string{"fat-tree:3": "expected fat-tree:RADIXxLEVELS", "fat-tree:3x2": "radix", "dragonfly:1": "expected dragonfly:", "/nowhere": "no such file", "fat-treee:4x2": "expected a file, fat-tree:"} {
		if out, err := inside(t, []string{"--fabric", topology}, "true"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %s", topology, err, out)
		}
	}
}
