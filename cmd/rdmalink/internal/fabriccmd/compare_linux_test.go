package fabriccmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
	"github.com/goverbs/goverbs/internal/ibsimtest"
)

// run runs a command by the name of its C twin, on the node that the environment names.
func run(t *testing.T, stdin, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runFrom(t, strings.NewReader(stdin), name, args...)
}

func runFrom(t *testing.T, stdin io.Reader, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	words, ok := Alias(name)
	if !ok {
		words = []string{"fabric", name}
	}
	var out, notes bytes.Buffer
	tool := &cli.Tool{Output: cli.Output{Stdout: &out, Stderr: &notes}, Stdin: stdin}
	code = tool.Run(t.Context(), cli.Command{Names: []string{"rdmalink"}, Sub: []cli.Command{Command()}}, append(words, args...))
	return out.String(), notes.String(), code
}

// difference is an intended difference between the output of a command and that of its C twin.
type difference struct {
	tool, text string
	mask       func(theirs, ours string) (string, string) // removes the difference; nil if TestC doesn't encounter it
}

// both returns a mask that replaces the matches of a regular expression in both outputs.
func both(expr, to string) func(a, b string) (string, string) {
	re := regexp.MustCompile(expr)
	return func(a, b string) (string, string) {
		return re.ReplaceAllString(a, to), re.ReplaceAllString(b, to)
	}
}

// differences holds all intended differences. The tool "" means all tools.
var differences = []difference{
	{tool: "", text: "The exit code is 1 after a failure and 2 for an invalid command line; C's programs exit with 255, 22 or an errno."},
	{tool: "", text: "Errors go to standard error; C's programs print some of them to standard output.", mask: both(`(?m)^\w+: iberror: .*\n`, "")},
	{tool: "", text: "Of C's options -e (--errors), -v (--verbose), -d (--debug), -z (--config) and -V (--version) are not there."},
	{tool: "sminfo", text: "The activity count increases while the subnet manager works.", mask: both(`activity count \d+`, "activity count N")},
	{tool: "sminfo", text: "A modifier, which changes the subnet manager, is asked for on a terminal and needs --yes elsewhere; C's program sends it at once."},
	{tool: "ibaddr", text: "A GID whose first 96 bits are zero is printed as ::20:0; C's program prints ::0.32.0.0.",
		mask: func(a, b string) (string, string) {
			return regexp.MustCompile(`::\d+\.\d+\.\d+\.\d+`).ReplaceAllStringFunc(a, func(gid string) string {
				v4 := netip.MustParseAddr(gid[2:]).As4()
				return netip.AddrFrom16([16]byte{12: v4[0], 13: v4[1], 14: v4[2], 15: v4[3]}).String()
			}), b
		}},
	{tool: "dump_fts", text: "Directed routes begin with slid 65535; dlid 65535, which are the values in the requests and in the output of C's other programs; dump_fts prints zeros.",
		mask: both(`slid (0|65535); dlid (0|65535)`, "slid; dlid")},
	{tool: "ibnetdiscover", text: "The time of the discovery is that of the run, or with --load-cache that of the file.", mask: both(`(?m)^# Topology file: .*\n`, "")},
	{tool: "ibnetdiscover", text: "Caches (--cache, --load-cache, --diff) are JSON files; C's program has a format of its own. --diff prints all changes unless --diffcheck selects some."},
	{tool: "ibnetdiscover", text: "The option -s (--show) is not there."},
	{tool: "ibnetdiscover", text: "-g groups by system image GUID and reads the slots of Mellanox's IS4 switches. It does not know the chassis of Voltaire, Cisco, InfiniCon and Xsigo. It numbers more than 255 chassis and prints their routers."},
	{tool: "iblinkinfo", text: "--load-cache takes a JSON file of discover --cache; C's program has a format of its own."},
	{tool: "iblinkinfo", text: "With -D or -G the walk ends after the hops of -n; C's program takes one link beyond them, and prints it, too."},
	{tool: "iblinkinfo", text: "If a node does not answer, the exit code is 1; that of C's program is 0."},
	{tool: "iblinkinfo", text: "The options --diff, --diffcheck, --filterdownports and -s (--sm_port) are not there."},
	{tool: "ibping", text: "If no request is answered, the exit code is 1; that of C's program is 0."},
	{tool: "ibtracert", text: "The options -f (--force) and --ports-file are not there."},
	{tool: "perfquery", text: "Traffic counters include the requests of the command itself, so two runs differ.",
		mask: both(`(?m)^(Port(Xmit|Rcv|Unicast|Multicast)\w*(Data|Pkts):\.+)\d+$`, "${1}N")},
	{tool: "perfquery", text: "-i prints rates over time; C's perfquery has no such option."},
	{tool: "perfquery", text: "If one of several ports fails, the command reports it and continues with the next."},
	{tool: "perfquery", text: "The options for other counters, such as -X and -E, take several ports and -l, too; C's program uses the first port."},
	{tool: "ibqueryerrors", text: "Traffic counters include the requests of the command itself, so two runs differ.",
		mask: both(`\[(Port(Xmit|Rcv|Unicast|Multicast)\w*(Data|Pkts)) == [^]]*\]`, "[$1]")},
	{tool: "ibqueryerrors", text: "--details prints PortRcvErrorDetails below PortRcvErrors and PortXmitDiscardDetails below PortXmitDiscards; C's program decodes each with the names of the other."},
	{tool: "ibqueryerrors", text: "Without a thresholds file the line is empty; C's program prints (null).",
		mask: func(a, b string) (string, string) {
			return strings.ReplaceAll(a, "## (null)\n", "## Thresholds: \n"), b
		}},
	{tool: "ibqueryerrors", text: "Unknown names in -s and in the thresholds file are errors; C's program ignores them."},
	{tool: "ibqueryerrors", text: "The options --load-cache and -R (--GNDN, which it ignores) are not there."},
	{tool: "ibqueryerrors", text: "The exit code is also 1 if a port could not be read."},
	{tool: "ibqueryerrors", text: "A port that could not be read is neither counted as checked nor reset, and a LID that does not answer is not asked again; C's program counts, resets and asks all the same."},
	{tool: "ibportstate", text: "A port that the node doesn't have is an error at once; C's program prints the heading first."},
	{tool: "ibqueryerrors", text: "If subnet administration does not answer, the command continues with service level 0; C's program prints nothing and exits with 0."},
	{tool: "saquery", text: "If the transport truncates a response, as ibsim does, the command prints only the records that have arrived, and exits with 1; C's program also prints memory beyond the end.",
		mask: func(a, b string) (string, string) {
			if strings.HasPrefix(a, b) && strings.Contains(a[len(b):], "dump:\n") {
				a = b
			}
			return a, b
		}},
	{tool: "saquery", text: "PortInfo has the fields of extended speeds 2, which C's release of 2022 lacks.",
		mask: func(a, b string) (string, string) {
			return a, regexp.MustCompile(`(?m)^\t\tLinkSpeedExt\w+2:.*\n`).ReplaceAllString(b, "")
		}},
	{tool: "saquery", text: "The activity count increases while the subnet manager works.", mask: both(`ActCount\.+\d+`, "ActCount N")},
	{tool: "saquery", text: "Keys must be numbers; for other words C's program asks for the key on the terminal."},
	{tool: "saquery", text: "Numbers behind a LID that the record has no room for are refused; C's program cuts them."},
	{tool: "smpquery", text: "PortInfo has the fields of extended speeds 2, which C's release of 2022 lacks.",
		mask: func(a, b string) (string, string) {
			return a, regexp.MustCompile(`(?m)^LinkSpeedExt\w+2:.*\n`).ReplaceAllString(b, "")
		}},
	{tool: "ibroute", text: "Without an address the command prints the tables of all switches, as dump_fts does; C's ibroute prints its usage."},
	{tool: "ibportstate", text: "The command asks for confirmation on a terminal, needs --yes elsewhere, and refuses to change the port that received the request; C's program changes any port at once."},
	{tool: "ibportstate", text: "The command can set FDR10 but does not print the extended port information of Mellanox devices. A new M_Key must be a number; the command never asks for it on the terminal."},
	{tool: "ibportstate", text: "LIDs that a change gives to a port without any are named, and asked for; C's program sets them silently."},
}

// topologies returns five topologies of ibsim's package and five others.
func topologies(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, file := range ibsimtest.Examples(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(text)
	}
	add := func(name string, topology *madtest.Topology, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		s, err := madtest.NewSubnet(topology)
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Open("h1", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		c := fabric.NewClient(p, nil)
		defer c.Close()
		f, err := c.Discover(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := f.WriteTopology(&text, nil); err != nil {
			t.Fatal(err)
		}
		all[name] = text.String()
	}
	small, err := madtest.FatTree(2, 2)
	add("fat tree 2,2", small, err)
	middle, err := madtest.FatTree(4, 2)
	add("fat tree 4,2", middle, err)
	deep, err := madtest.FatTree(4, 3)
	add("fat tree 4,3", deep, err)
	fly, err := madtest.Dragonfly(3, 2, 2)
	add("dragonfly 3,2,2", fly, err)
	wide, err := madtest.Dragonfly(2, 4, 1)
	add("dragonfly 2,4,1", wide, err)
	return all
}

// TestC compares the commands with C's programs on ibsim, with opensm. All topologies take minutes, so
// only make fabric runs more than one.
func TestC(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	for name, topology := range topologies(t) {
		if os.Getenv("CI") != "true" && name != "net.2sw2path4hca" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			sim := ibsimtest.Start(t, topology)
			// ibsim delivers the requests to a node to one program, so the subnet manager needs its own host.
			hosts := regexp.MustCompile(`(?m)^(?:Ca|Hca)\s+\d+\s+"([^"]+)".*\n\[1\]`).FindAllStringSubmatch(topology, -1)
			hosts = append(hosts, regexp.MustCompile(`(?m)^Switch\s+\d+\s+"([^"]+)"`).FindStringSubmatch(topology))
			c := &comparison{sim: sim, node: hosts[1][1]}
			sim.OpenSM(t, hosts[0][1])
			attach := sim.Config(c.node)
			t.Setenv("SIM_HOST", attach.Node)
			t.Setenv("IBSIM_SOCKNAME", attach.SockName)
			lids, _, _ := run(t, "", "ibswitches")
			m := regexp.MustCompile(`lid (\d+) lmc`).FindStringSubmatch(lids)
			if m == nil {
				t.Fatalf("no switch: %s", lids)
			}
			own, _, _ := run(t, "", "perfquery")
			host := regexp.MustCompile(`Lid (\d+) port`).FindStringSubmatch(own)
			if host == nil {
				t.Fatalf("perfquery: %s", own)
			}
			c.lid = host[1]
			c.count(t)
			for _, line := range commandLines(host[1], m[1]) {
				c.compare(t, line)
			}
		})
	}
}

// TestChassis compares ibnetdiscover -g with ours on a subnet with chassis: one of Mellanox's with slots,
// two of which claim the same slot, and one of other nodes.
func TestChassis(t *testing.T) {
	top := tree(t)
	slots := map[string]string{"spine1": "S01/U1", "spine2": "S18/U1", "leaf1": "L01:board/U1", "leaf2": "L36/U2", "leaf3": "L36/U1", "leaf4": "L99/U1"}
	for i := range top.Nodes {
		n := &top.Nodes[i]
		switch slot := slots[n.Name]; {
		case slot != "" && n.Name != "leaf4": // C's program doesn't print a switch in a slot that the chassis lacks
			n.VendorID, n.DeviceID, n.SystemGUID, n.Description = 0x2c9, 0xbd36, 0xabc00, "MF0;host:A name of a type that is long/"+slot
		case n.Name == "h1" || n.Name == "h3" || n.Name == "h4" || n.Name == "leaf4":
			n.SystemGUID = 0xdef00
		}
	}
	attach(t, top, "h2")
	c := &comparison{sim: ibsimtest.Serving(t, os.Getenv("IBSIM_SOCKNAME"), 0), node: "h1"}
	out, _, _ := run(t, "", "ibnetdiscover", "-g")
	for _, want := range []string{"\nChassis 1 (guid 0x", "\nChassis 2 (guid 0x", "# A name of a type th Line 1 Chip 1\n", "Spine 18 Chip 1\n", "[ext 3]", "\nNon-Chassis Nodes\n", "# Chassis 2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	c.compare(t, "ibnetdiscover -g")
	c.compare(t, "ibnetdiscover -g -f")
}

// TestCongestion compares ibccquery with ours on a subnet in this process, because ibsim has no
// congestion control. libumad2sim passes 224 bytes of a MAD to C's programs, so the values are in those.
func TestCongestion(t *testing.T) {
	top := tree(t)
	for i := range top.Nodes {
		if top.Nodes[i].Name == "leaf1" {
			top.Nodes[i].Ports = 100 // three blocks of settings
		}
	}
	s := attach(t, top, "h2")
	sw, ca := s.Node("leaf1").Port(0), s.Node("h3").Port(1)
	sw.ChangeCongestion(func(c *madtest.Congestion) {
		c.Timestamp = 77
		c.Switch = mad.SwitchCongestionSetting{ControlMap: 0x1f, VictimMask: [32]byte{1, 31: 0xfe}, CreditMask: [32]byte{5: 9}, Threshold: 15, PacketSize: 8, CSThreshold: 3, CSReturnDelay: 0x4005, MarkingRate: 700}
		for i := range c.Ports {
			c.Ports[i] = mad.SwitchPortCongestion{Valid: i%2 == 0, ControlType: i%3 == 0, Threshold: uint8(i % 16), PacketSize: uint8(i), MarkingRate: uint16(1000 + i)}
		}
		c.SwitchLog = mad.CongestionLogSwitch{Flags: 3, Events: 9, PortMap: [32]byte{2, 30: 5}}
		c.SwitchLog.Log[0] = mad.CongestionEventSwitch{SLID: 3, DLID: 4, SL: 7, Timestamp: 1 << 31}
		c.SwitchLog.Log[11] = mad.CongestionEventSwitch{SLID: 5}
	})
	ca.ChangeCongestion(func(c *madtest.Congestion) {
		c.Timestamp = 1 << 30
		c.CA = mad.CACongestionSetting{PortControl: 1, ControlMap: 0x8003}
		for i := range c.CA.Entries {
			c.CA.Entries[i] = mad.CACongestionEntry{Timer: uint16(100 + i), Increase: uint8(i), TriggerThreshold: uint8(2 * i), Min: uint8(3 * i)}
		}
		c.Limit = 99
		for i := range c.Table {
			c.Table[i] = mad.CongestionControlEntry{Shift: uint8(i % 4), Multiplier: uint16(i * 100)}
		}
		c.CALog = mad.CongestionLogCA{Flags: 1, Events: 2, EventMap: 0x8001}
		c.CALog.Log[0] = mad.CongestionEventCA{LocalQP: 0x123456, SL: 7, ServiceType: 2, RemoteQP: 0xabcdef, LocalLID: 8, RemoteLID: 9, Timestamp: 10}
		c.CALog.Log[10] = mad.CongestionEventCA{Timestamp: 11}
		c.Key = mad.CongestionKeyInfo{Key: 0x1234, LeasePeriod: 60, Violations: 4}
	})
	locked := s.Node("h4").Port(1)
	locked.ChangeCongestion(func(c *madtest.Congestion) { c.Key = mad.CongestionKeyInfo{Key: 5, ProtectBit: true} })
	sim := ibsimtest.Serving(t, os.Getenv("IBSIM_SOCKNAME"), 0)
	c := &comparison{sim: sim, node: "h1"}
	lids := strings.NewReplacer("SW", fmt.Sprint(sw.Info().LID), "SPINE", fmt.Sprint(s.Node("spine1").Port(0).Info().LID), "CA", fmt.Sprint(ca.Info().LID), "LOCKED", fmt.Sprint(locked.Info().LID), "GUID", fmt.Sprintf("0x%x", uint64(ca.GUID())))
	for _, line := range []string{
		"CP SW", "CP CA", "CI SW", "CI SW 3", "SP SPINE 0", "ci CA", "CongestionKeyInfo SW", "CK CA", "-c 0x1234 CK CA", "CL SW", "CL CA", "SS SW", "SP SPINE", "SP SW 39", "SP SW 48", "SP SW 100", "CS CA", "CT CA", "TI SW", "Timestamp CA",
		"CT SW", "SS CA", "SP CA", "-G CI GUID", "-t 100 CK LOCKED", "-c 5 CK LOCKED",
	} {
		c.compare(t, "ibccquery "+lids.Replace(line))
	}
	for line, events := range map[string][]string{"CL SW": {"SLID:............................3\n", "SLID:............................5\n"}, "CL CA": {"Remote_LID_CN_Entry:.............9\n", "Timestamp_CN_Entry:..............11\n"}} {
		out, _, _ := run(t, "", "ibccquery", strings.Fields(lids.Replace(line))...)
		for _, e := range events { // compare passes if ours ends early
			if !strings.Contains(out, e) {
				t.Errorf("no %q in %s", e, out)
			}
		}
	}
}

// comparison is a simulator, and the node that the programs run on.
type comparison struct {
	sim  *ibsimtest.Sim
	node string
	lid  string // LID of the node
}

// count sets error counters of the node. It returns once the simulator has set them.
func (c *comparison) count(t *testing.T) {
	t.Helper()
	for _, counter := range []string{"PortXmitDiscards=7", "SymbolErrorCounter=5"} {
		c.sim.Command(t, fmt.Sprintf(`PerformanceSet "%s"[1] PortCounters.%s`, c.node, counter))
		name, value, _ := strings.Cut(counter, "=")
		for deadline := time.Now().Add(time.Minute); ; {
			out, _, _ := run(t, "", "perfquery", c.lid, "1")
			if regexp.MustCompile(name + `:\.+` + value + `\n`).MatchString(out) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the simulator does not set %s: %s", counter, out)
			}
		}
	}
}

// commandLines returns the command lines of C's programs that TestC compares.
func commandLines(host, sw string) []string {
	lines := []string{
		"ibnetdiscover", "ibnetdiscover -p", "ibnetdiscover -l", "ibnetdiscover -g", "iblinkinfo", "iblinkinfo -l", "iblinkinfo --switches-only", "iblinkinfo -D 0,1",
		"sminfo", "sminfo H", "ibaddr", "ibaddr H", "ibaddr H 1", "ibaddr S", "ibaddr -g S", "ibaddr -l H", "ibaddr -L H", "ibaddr -g -L H", "ibaddr -D 0,1", "ibtracert H S", "ibtracert -n S H", "smpquery NI H", "smpquery PI H 1", "smpquery SI S", "smpquery -D NI 0", "smpquery ND S",
		"ibportstate H 1", "ibportstate S 1", "ibportstate S 0", "ibportstate -D 0 1",
		"perfquery", "perfquery H 1", "perfquery -x H 1", "perfquery -a S", "perfquery -l -a S", "perfquery -x -a S", "perfquery S 1,2", "perfquery -l S 1-2",
		"perfquery S 255", "perfquery -r H 1", "perfquery -R H 1 0x0fff", "perfquery -E H 1", "perfquery -D H 1",
		"ibqueryerrors", "ibqueryerrors -c --skip-sl", "ibqueryerrors --skip-sl -s SymbolErrorCounter,PortXmitDiscards", "ibqueryerrors --skip-sl -r", "ibqueryerrors --skip-sl --data",
		"ibqueryerrors --skip-sl --switch", "ibqueryerrors --skip-sl --ca --counters", "ibqueryerrors --skip-sl -D 0,1", "ibqueryerrors --skip-sl -k", "ibqueryerrors --skip-sl -k -K",
		"ibroute S", "ibroute -n S", "ibroute -a S", "ibroute -M S", "ibroute -M -n S", "ibroute S 1 3", "ibroute -M -a S 0xc000 0xc005", "ibroute -D 0,1", "ibroute H",
		"dump_fts", "dump_fts -n", "dump_fts -M",
		"saquery", "saquery S", "saquery -N", "saquery -D", "saquery -s", "saquery -g", "saquery -m", "saquery -m 0xc000", "saquery -c", "saquery CPI",
		"saquery -x", "saquery -S", "saquery -I", "saquery -p", "saquery -O H", "saquery --src-to-dst H:S", "saquery -p --slid H --dlid S",
		"saquery NR S", "saquery PIR S/1", "saquery PIR H", "saquery SL2VL H", "saquery PKTR H", "saquery PKTR H/1/0", "saquery VLAR H", "saquery LR S/1",
		"saquery MCMR", "saquery MCMR --mlid 0xc000", "saquery LFTR S", "saquery LFTR S/0", "saquery MFTR S", "saquery MFTR S/0/0", "saquery GIR H", "saquery GIR H/0",
		"saquery SWIR S", "saquery SMIR", "saquery SMIR H", "saquery NR 999",
		"ibportstate S 1 mtu 4", "ibportstate S 1 lmc 0", "ibportstate H 1 smlid 3",
	}
	for i, line := range lines {
		words := strings.Fields(line)
		for k, w := range words[1:] {
			w = regexp.MustCompile(`^H\b`).ReplaceAllString(w, host)
			w = regexp.MustCompile(`:S$|^S\b`).ReplaceAllStringFunc(w, func(s string) string { return strings.Replace(s, "S", sw, 1) })
			words[1+k] = w
		}
		lines[i] = strings.Join(words, " ")
	}
	return lines
}

// compare runs a command line with C's program and with ours. It compares their output, and whether
// they succeed.
func (c *comparison) compare(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	changes := strings.Contains(line, " -k") || strings.Contains(line, " -r ") || strings.Contains(line, " -R ")
	switch {
	case changes:
		c.count(t)
	case words[0] == "ibportstate" && len(words) > 3:
		c.sim.Run(t, c.node, words[0], words[1:]...) // makes the change, so the next two runs change nothing
	}
	theirs, theirErrors, theirCode := c.sim.Run(t, c.node, words[0], words[1:]...)
	// The simulator has short queues and loses packets on a busy machine. libumad2sim may crash then.
	for n := 0; n < 3 && (theirCode < 0 || strings.Contains(theirErrors, "timed out") || strings.Contains(theirErrors, "Query SA failed")); n++ {
		theirs, theirErrors, theirCode = c.sim.Run(t, c.node, words[0], words[1:]...)
	}
	if changes {
		c.count(t)
	}
	if words[0] == "ibportstate" {
		words = append(words, "--yes")
	}
	ours, ourErrors, ourCode := run(t, "", words[0], words[1:]...)
	for n := 0; n < 3 && strings.Contains(ourErrors, "no response"); n++ {
		ours, ourErrors, ourCode = run(t, "", words[0], words[1:]...)
	}
	if strings.Contains(theirErrors, "Query SA failed: ") || strings.Contains(theirErrors, "ERROR: Query result returned") {
		theirCode = ourCode // one of the differences
		if words[0] == "ibqueryerrors" {
			ours = ""
		}
	}
	if strings.Contains(ourErrors, fabric.ErrTruncated.Error()) {
		ourCode = 0
		theirs, ours = firstHalf(theirs), firstHalf(ours)
	}
	if words[0] == "iblinkinfo" && strings.Contains(theirErrors, "timed out") && strings.Contains(ourErrors, "no response") {
		theirCode = ourCode // one of the differences
	}
	if words[0] == "ibccquery" && slices.Contains(words, "CL") {
		theirs = theirs[:min(len(theirs), len(ours))] // memory behind the 224 bytes follows
	}
	for _, d := range differences {
		if d.mask != nil && (d.tool == "" || d.tool == words[0]) {
			theirs, ours = d.mask(theirs, ours)
		}
	}
	if d := cmp.Diff(theirs, ours); d != "" {
		t.Errorf("%s (-C +ours):\n%s\nC: %s\nours: %s", line, d, theirErrors, ourErrors)
	}
	if (theirCode == 0) != (ourCode == 0) {
		t.Errorf("%s: exit code %d, C's is %d\nC: %s\nours: %s", line, ourCode, theirCode, theirErrors, ourErrors)
	}
}

// firstHalf returns the first half of the records in saquery's output. libumad2sim passes only the
// beginning of a MAD to C's programs. The programs print the memory behind it as further records.
func firstHalf(out string) string {
	records := regexp.MustCompile(`(?m)^\w.*dump:\n(\s.*\n)*`).FindAllString(out, -1)
	return strings.Join(records[:(len(records)+1)/2], "")
}

// TestOptions compares the options with those of C's programs. Those that ours don't have are named in
// the differences.
func TestOptions(t *testing.T) {
	ibsimtest.Examples(t) // C's programs are installed, or the test is skipped
	option := regexp.MustCompile(`(?m)^ +(--[\w-]+)(?:, (-\w))?`)
	word := regexp.MustCompile(`--?\w[\w-]*`)
	for name := range aliases {
		theirs, err := exec.Command(name, "--help").CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Errorf("%v", err)
			continue
		}
		ours, _, _ := run(t, "", name, "-h")
		known := map[string]bool{"-h": true, "--help": true}
		for _, w := range word.FindAllString(ours, -1) {
			known[w] = true
		}
		for _, d := range differences {
			if d.tool == "" || d.tool == name {
				if text, ok := strings.CutSuffix(d.text, " not there."); ok {
					for _, w := range word.FindAllString(text, -1) {
						known[w] = true
					}
				}
			}
		}
		for _, m := range option.FindAllStringSubmatch(string(theirs), -1) {
			if !known[m[1]] || m[2] != "" && !known[m[2]] {
				t.Errorf("%s has no %s", name, strings.TrimSpace(m[0]))
			}
		}
	}
}

// TestDifferences checks that the differences are sentences and name C programs that are replaced.
func TestDifferences(t *testing.T) {
	seen := make(map[string]bool)
	for _, d := range differences {
		if _, ok := aliases[d.tool]; !ok && d.tool != "" {
			t.Errorf("%q is the name of no tool", d.tool)
		}
		if !strings.HasSuffix(d.text, ".") || seen[d.tool+d.text] {
			t.Errorf("%q is no sentence, or there twice", d.text)
		}
		seen[d.tool+d.text] = true
	}
}
