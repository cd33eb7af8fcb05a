package fabriccmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/ib/fabric"
	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/ib/madtest"
	"github.com/goverbs/goverbs/verbs"
)

// attach creates a subnet and sets the environment so that commands run on its node h1. If sm isn't
// empty, a subnet manager runs on that node.
func attach(t *testing.T, top *madtest.Topology, sm string) *madtest.Subnet {
	t.Helper()
	s, err := madtest.NewSubnet(top)
	if err != nil {
		t.Fatal(err)
	}
	if sm != "" {
		if err := s.StartSM(sm); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.StopSM)
	}
	name := fmt.Sprintf("fabriccmd%d.%s", os.Getpid(), regexp.MustCompile(`\W`).ReplaceAllString(t.Name(), "-"))
	srv, err := s.ListenIbsim("unixgram", name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	t.Setenv("SIM_HOST", "h1")
	t.Setenv("IBSIM_SOCKNAME", name)
	return s
}

// tree returns a fat tree of four leaves and two spines, with free ports.
func tree(t *testing.T) *madtest.Topology {
	t.Helper()
	top, err := madtest.FatTree(4, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range top.Nodes {
		if top.Nodes[i].Type == mad.NodeSwitch {
			top.Nodes[i].Ports = 8
		}
	}
	return top
}

// TestHelp checks that each name of a C program has a command, which prints help.
func TestHelp(t *testing.T) {
	for name := range aliases {
		if out, stderr, code := run(t, "", name, "-h"); code != 0 || !strings.Contains(out, name) {
			t.Errorf("%s -h: exit code %d, %s%s", name, code, out, stderr)
		}
	}
	for _, line := range []string{
		"counters 1 300", "counters 1 9-2", "counters 1 1 mask", "counters -i 0", "counters -i 1s -r", "errors -s Nonsense", "route 1 -1", "route 1 2 3 4",
		"sa -L", "sa --gid fe80", "sa --sl 16", "sa --src-to-dst 1", "port", "port 1", "port 1 1 jump", "port 1 1 speed", "port 1 1 speed 99", "port 1 1 enable disable", "check 1", "discover --diffcheck hca",
	} {
		words := strings.Fields(line)
		if out, stderr, code := run(t, "", words[0], words[1:]...); code != 2 || out != "" || stderr == "" {
			t.Errorf("%s: exit code %d, %s%s", line, code, out, stderr)
		}
	}
}

// findings runs check and returns its findings, each as kind, node and port.
func findings(t *testing.T) []string {
	t.Helper()
	out, stderr, code := run(t, "", "check", "-j", "-t", "100")
	var result struct {
		Findings []struct {
			Kind, Node, Text, Remedy string
			Port                     *int
		}
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr)
	}
	var all []string
	for _, f := range result.Findings {
		s := f.Kind + ": " + f.Node
		if f.Port != nil {
			s += fmt.Sprintf(" %d", *f.Port)
		}
		if f.Remedy == "" || f.Text == "" {
			t.Errorf("%+v", f)
		}
		all = append(all, s)
	}
	if (code == 0) != (len(all) == 0) {
		t.Errorf("exit code %d with %d findings", code, len(all))
	}
	return all
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name   string
		sm     string
		before func(*madtest.Topology)
		after  func(*madtest.Subnet)
		want   []string
	}{
		{name: "clean", sm: "h1"},
		{name: "no subnet manager", want: []string{"subnet manager: "}},
		{name: "narrow link", sm: "h1", after: func(s *madtest.Subnet) {
			p := s.Node("leaf2").Port(1)
			for _, end := range []*madtest.Port{p, p.Peer()} {
				end.Change(func(i *mad.PortInfo) { i.LinkWidthActive = mad.Width1X })
			}
		}, want: []string{"slow link: leaf2 1"}},
		{name: "errors", sm: "h1", after: func(s *madtest.Subnet) {
			s.Node("h3").Port(1).Count(func(c *mad.PortCountersExtended) { c.SymbolErrors += 11 })
			s.Node("h4").Port(1).Count(func(c *mad.PortCountersExtended) { c.SymbolErrors += 10 }) // equal to the threshold
		}, want: []string{"errors: h3 1"}},
		{name: "silent node", sm: "h1", after: func(s *madtest.Subnet) { s.Node("h3").SetFault(madtest.Fault{Silent: true}) },
			want: []string{"unanswered: leaf2 1", "inactive link"}},
		{name: "two cables", sm: "h1", after: func(s *madtest.Subnet) {
			if err := s.Connect(s.Node("leaf3").Port(7), s.Node("spine2").Port(8)); err != nil {
				t.Error(err)
			}
			s.Sweep()
		}, want: []string{"cabling: ", "differs from its twins: leaf3"}},
		{name: "one LID twice", sm: "h1", after: func(s *madtest.Subnet) {
			lid := s.Node("h4").Port(1).Info().LID
			s.Node("h8").Port(1).Change(func(i *mad.PortInfo) { i.LID = lid })
		}, want: []string{"duplicate LID: h"}},
		{name: "slower twin", sm: "h1", before: func(top *madtest.Topology) {
			for i := range top.Nodes {
				if top.Nodes[i].Name == "h5" {
					top.Nodes[i].Links = map[int]madtest.LinkSpec{1: {Widths: 3, Speeds: 3}}
				}
			}
		}, want: []string{"differs from its twins: h5"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := tree(t)
			if test.before != nil {
				test.before(top)
			}
			s := attach(t, top, test.sm)
			if test.after != nil {
				test.after(s)
			}
			got := findings(t)
			for _, w := range test.want {
				if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, w) }) && w != "inactive link" {
					t.Errorf("no finding %q in %q", w, got)
				}
			}
			if len(test.want) == 0 && len(got) > 0 || test.name == "errors" && len(got) != 1 {
				t.Errorf("found %q", got)
			}
		})
	}
}

func TestPort(t *testing.T) {
	s := attach(t, tree(t), "h2")
	leaf := s.Node("leaf1")
	lid := fmt.Sprint(leaf.Port(0).Info().LID)
	var far, near int // ports of leaf1 to the spine and to h1
	for p := 1; p <= 8; p++ {
		switch peer := leaf.Port(p).Peer(); {
		case peer == nil:
		case peer.Node().Name() == "h1":
			near = p
		case strings.HasPrefix(peer.Node().Name(), "spine"):
			far = p
		}
	}
	state := func() verbs.PortState { return leaf.Port(far).Info().LinkState }
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
		down bool
	}{
		{"query", []string{lid, fmt.Sprint(far)}, 0, "Peer PortInfo", false},
		{"nobody says yes", []string{lid, fmt.Sprint(far), "disable"}, 1, "--yes", false},
		{"the way of the answer", []string{"--yes", lid, fmt.Sprint(near), "disable"}, 1, "refusing", false},
		{"no such port", []string{lid, "9", "query"}, 1, "ports up to 8", false},
		{"an M_Key of a switch's port", []string{"--yes", lid, fmt.Sprint(far), "mkey", "1"}, 2, "only port 0", false},
		{"disable", []string{"--yes", lid, fmt.Sprint(far), "disable"}, 0, "After PortInfo set", true},
	} {
		out, stderr, code := run(t, "n\n", "ibportstate", test.args...)
		if code != test.code || !strings.Contains(out+stderr, test.want) || (state() != verbs.PortActive) != test.down {
			t.Errorf("%s: exit code %d, port %v\n%s%s", test.name, code, state(), out, stderr)
		}
	}
	// The command asks only on a terminal. It must not read the answer from a file.
	file, err := os.Create(filepath.Join(t.TempDir(), "yes"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := runFrom(t, file, "port", lid, fmt.Sprint(far), "enable"); code != 1 || strings.Contains(stderr, "[y/N]") || state() == verbs.PortActive {
		t.Errorf("a file: exit code %d, port %v, %s", code, state(), stderr)
	}
	terminal, keyboard := openTerminal(t)
	for _, answer := range []string{"n", "", "yes"} {
		if _, err := keyboard.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := runFrom(t, terminal, "port", lid, fmt.Sprint(far), "mtu", "4")
		if (code == 0) != (answer == "yes") || !strings.Contains(stderr, "mtu 4 port "+fmt.Sprint(far)) {
			t.Errorf("%q at a terminal: exit code %d, %s", answer, code, stderr)
		}
	}
	out, _, code := run(t, "", "port", "-j", "--yes", lid, fmt.Sprint(far), "enable")
	var result struct{ Before, After struct{ Info map[string]any } }
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || result.Before.Info["PhysLinkState"] != "Disabled" {
		t.Errorf("enable: exit code %d, %v, %s", code, err, out)
	}
}

// TestPortWithoutLID changes a port of a subnet that no subnet manager has brought up. The node refuses a
// port without LIDs, so the command sets them, too: not without saying so.
func TestPortWithoutLID(t *testing.T) {
	s := attach(t, tree(t), "")
	lids := func() [2]uint16 {
		i := s.Node("h1").Port(1).Info()
		return [2]uint16{i.LID, i.SMLID}
	}
	terminal, keyboard := openTerminal(t)
	for _, test := range []struct {
		answer  string
		changes []string
		asked   string
		want    [2]uint16
	}{
		{"no", []string{"vls", "1"}, "vls 1, lid 4660, smlid 4660 port 1", [2]uint16{}},
		{"yes", []string{"vls", "1", "lid", "7"}, "vls 1, lid 7, smlid 4660 port 1", [2]uint16{7, 0x1234}},
		{"yes", []string{"vls", "1"}, "? vls 1 port 1", [2]uint16{7, 0x1234}},
	} {
		before := lids()
		if _, err := keyboard.WriteString(test.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := runFrom(t, terminal, "port", append([]string{"-D", "0", "1"}, test.changes...)...)
		asked := strings.Contains("? "+stderr, test.asked) // the question follows the notes, if there are any
		if (code == 0) != (test.answer == "yes") || !asked || lids() != test.want {
			t.Errorf("%v: exit code %d, LIDs %v, %s", test.changes, code, lids(), stderr)
		}
		if said := strings.Contains(stderr, "0x1234 will be set too"); said != (before[1] == 0) {
			t.Errorf("%v: %s", test.changes, stderr)
		}
	}
	// The port is enabled, so nothing changes. The output is JSON all the same.
	out, stderr, code := run(t, "", "port", "-j", "--yes", "-D", "0,1", "2", "on")
	var result struct{ Before, After struct{ Info map[string]any } }
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 || len(result.After.Info) == 0 || fmt.Sprint(result.Before) != fmt.Sprint(result.After) {
		t.Errorf("on: exit code %d, %v, %s%s", code, err, out, stderr)
	}
}

// TestLinksOfNode prints the links of one node, and of those around it.
func TestLinksOfNode(t *testing.T) {
	s := attach(t, tree(t), "h2")
	leaf := s.Node("leaf1")
	for _, args := range [][]string{{"-D", "0,1"}, {"-G", fmt.Sprintf("0x%x", uint64(leaf.Port(0).GUID()))}} {
		out, stderr, code := run(t, "", "iblinkinfo", args...)
		// The port that the route enters by has a neighbor, too.
		for _, want := range []string{`"h1"`, `"h2"`, `"spine1"`, `"spine2"`} {
			if code != 0 || strings.Count(out, want) != 1 {
				t.Errorf("%v: exit code %d, not one %s in %s%s", args, code, want, out, stderr)
			}
		}
		if strings.Count(out, "Switch: ") != 1 || strings.Contains(out, "CA: ") {
			t.Errorf("%v: %s", args, out)
		}
		if out, _, _ := run(t, "", "iblinkinfo", append(args, "-n", "2", "-a")...); strings.Count(out, "Switch: ") != 6 || strings.Count(out, "CA: ") != 2 {
			t.Errorf("%v: two hops: %s", args, out)
		}
	}
}

// TestSetSM sends a Set of SMInfo, which a person has to agree to.
func TestSetSM(t *testing.T) {
	s := attach(t, tree(t), "h2")
	lid := fmt.Sprint(s.Node("h2").Port(1).Info().LID)
	var mu sync.Mutex // guards sent
	var sent []string
	s.Node("h2").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
		var i mad.SMInfo
		if request.AttrID() == mad.AttrSMInfo && request.Method() == mad.Set && mad.Unmarshal(request.Data(), &i) == nil {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, fmt.Sprintf("modifier %d state %d priority %d activity %d", request.Modifier(), i.State, i.Priority, i.Activity))
			response.SetStatus(mad.StatusOK)
		}
		return response
	}})
	for _, test := range []struct {
		args string
		code int
		sent string
	}{
		{lid + " 4", 1, ""},
		{"--yes " + lid + " 4", 0, "modifier 4 state 2 priority 0 activity 0"},
		{"--yes -s 0 -p 15 -a 7 " + lid + " 0x3", 0, "modifier 3 state 0 priority 15 activity 7"},
		{"--yes -s 4 " + lid + " 3", 2, ""},
		{"-s 1 " + lid, 2, ""},
		{lid + " x", 2, ""},
	} {
		mu.Lock()
		sent = nil
		mu.Unlock()
		out, stderr, code := run(t, "", "sminfo", strings.Fields(test.args)...)
		mu.Lock()
		if code != test.code || strings.Join(sent, "") != test.sent || (code == 0) != strings.HasPrefix(out, "sminfo: sm lid "+lid) {
			t.Errorf("%s: exit code %d, sent %q, %s%s", test.args, code, sent, out, stderr)
		}
		mu.Unlock()
	}
}

// TestAddress prints the address of this port, and of others.
func TestAddress(t *testing.T) {
	s := attach(t, tree(t), "h2")
	own, other := s.Node("h1").Port(1), s.Node("h3").Port(1)
	for args, want := range map[string]string{
		"":                                     fmt.Sprintf("GID fe80::%x:%x LID start 0x%x end 0x%[3]x\n", uint64(own.GUID())>>16, uint64(own.GUID())&0xffff, own.Info().LID),
		"-L -D 0":                              fmt.Sprintf("LID start %d end %[1]d\n", own.Info().LID),
		fmt.Sprintf("-l %d", other.Info().LID): fmt.Sprintf("LID start 0x%x end 0x%[1]x\n", other.Info().LID),
		fmt.Sprintf("-l -G 0x%x", uint64(other.GUID())): fmt.Sprintf("LID start 0x%x end 0x%[1]x\n", other.Info().LID),
	} {
		if out, stderr, code := run(t, "", "ibaddr", strings.Fields(args)...); code != 0 || out != want {
			t.Errorf("ibaddr %s: exit code %d, %q, not %q %s", args, code, out, want, stderr)
		}
	}
}

// TestEmptyJSON checks that a result without entries is an empty list.
func TestEmptyJSON(t *testing.T) {
	top := &madtest.Topology{
		Nodes:  []madtest.NodeSpec{{Name: "h1", Type: mad.NodeCA, Ports: 1}, {Name: "h2", Type: mad.NodeCA, Ports: 1}},
		Cables: []madtest.Cable{{A: madtest.End{Node: "h1", Port: 1}, B: madtest.End{Node: "h2", Port: 1}}},
	}
	s := attach(t, top, "h2")
	lid := fmt.Sprint(s.Node("h2").Port(1).Info().LID)
	s.Node("h2").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
		switch request.AttrID() {
		case mad.AttrPortInfo:
			var i mad.PortInfo
			if err := mad.Unmarshal(response.Data(), &i); err != nil {
				t.Error(err)
			}
			i.GUIDCap = 0
			if err := mad.Marshal(response.Data(), &i); err != nil {
				t.Error(err)
			}
		case mad.AttrNodeInfo:
			response.Data()[28], response.Data()[29] = 0, 0 // PartitionCap
		}
		return response
	}})
	for _, line := range []string{"route -j", "query -j GI " + lid, "query -j PKeys " + lid, "counters -j -R " + lid + " 1", "sa -j SR"} {
		words := strings.Fields(line)
		if out, stderr, code := run(t, "", words[0], words[1:]...); out != "[]\n" || code != 0 {
			t.Errorf("%s: exit code %d, %q %s", line, code, out, stderr)
		}
	}
}

// openTerminal returns the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (terminal, keyboard *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, keyboard
}

func TestCounters(t *testing.T) {
	s := attach(t, tree(t), "h2")
	leaf := s.Node("leaf1")
	lid := fmt.Sprint(leaf.Port(0).Info().LID)
	for p := 1; p <= 2; p++ {
		leaf.Port(p).Count(func(c *mad.PortCountersExtended) { c.SymbolErrors += 40000; c.RcvErrors += 5 })
	}
	leaf.Port(1).CountDetails(func(r *mad.PortRcvErrorDetails, _ *mad.PortXmitDiscardDetails) { r.MalformedPktErrors = 3 })
	out, stderr, code := run(t, "", "perfquery", "-a", lid, "1,2")
	// The counter of symbol errors has 16 bits, and a sum stays at its maximum too.
	if code != 0 || !strings.Contains(out, "port 255 ") || !regexp.MustCompile(`SymbolErrorCounter:\.+65535\n`).MatchString(out) || !regexp.MustCompile(`PortRcvErrors:\.+10\n`).MatchString(out) {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	// The counters of an option, too, are those of each port of the list.
	leaf.Port(2).CountDetails(func(r *mad.PortRcvErrorDetails, _ *mad.PortXmitDiscardDetails) { r.MalformedPktErrors = 4 })
	details := func(args ...string) (values []string) {
		t.Helper()
		out, stderr, code := run(t, "", "perfquery", append([]string{"-E"}, args...)...)
		for _, m := range regexp.MustCompile(`Malformed\w+:\.+(\d+)\n`).FindAllStringSubmatch(out, -1) {
			values = append(values, m[1])
		}
		if code != 0 {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, stderr)
		}
		return values
	}
	if got := details(lid, "1,2"); !slices.Equal(got, []string{"3", "4"}) {
		t.Errorf("details of two ports: %v", got)
	}
	if got := details("-a", lid, "1,2"); !slices.Equal(got, []string{"7"}) {
		t.Errorf("sum of the details of two ports: %v", got)
	}
	if got := details("-a", "-l", lid); len(got) != 8 {
		t.Errorf("details of each port: %v", got)
	}
	out, stderr, code = run(t, "", "ibqueryerrors", "--details", "--skip-sl")
	if code != 1 || !strings.Contains(out, "[PortRcvErrors == 5] [PortMalformedPktErrors == 3]") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	file := filepath.Join(t.TempDir(), "thresholds")
	if err := os.WriteFile(file, []byte("# all of this is allowed\nSymbolErrorCounter=65535\nPortRcvErrors=5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, stderr, code = run(t, "", "errors", "--threshold-file", file, "--skip-sl"); code != 0 || !strings.Contains(out, "Thresholds: [SymbolErrorCounter = 65535][PortRcvErrors = 5]") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	out, stderr, code = run(t, "", "errors", "-j", "--skip-sl")
	var bad struct {
		Ports []struct{ Counters map[string]uint64 }
		Bad   int `json:"bad_ports"`
	}
	if err := json.Unmarshal([]byte(out), &bad); err != nil || code != 1 || bad.Bad != 2 || bad.Ports[0].Counters["PortRcvErrors"] != 5 {
		t.Errorf("exit code %d, %v, %s%s", code, err, out, stderr)
	}
	if out, stderr, code = run(t, "", "perfquery", "-R", lid, "1"); code != 0 || out != "" {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	if out, _, _ = run(t, "", "perfquery", lid, "1"); !regexp.MustCompile(`SymbolErrorCounter:\.+0\n`).MatchString(out) {
		t.Errorf("after the reset: %s", out)
	}

	// Each reading increases error counters, so the rates are not zero.
	var readings uint64
	leaf.SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
		var c mad.PortCountersExtended
		if request.Class() == mad.ClassPerf && request.AttrID() == mad.AttrPortCountersExtended && mad.Unmarshal(response.Data(), &c) == nil {
			readings++
			c.XmitData, c.RcvPkts = readings*1000, 7
			if err := mad.Marshal(response.Data(), &c); err != nil {
				t.Error(err)
			}
		}
		return response
	}})
	out, stderr, code = run(t, "", "counters", "-j", "-i", "1ms", "--count", "2", lid, "1")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 {
		t.Fatalf("exit code %d, %s%s", code, out, stderr)
	}
	for _, line := range lines {
		var rate map[string]float64
		if err := json.Unmarshal([]byte(line), &rate); err != nil || rate["PortRcvPkts_per_second"] != 0 {
			t.Errorf("%v: %s", err, line)
		}
		if got := rate["PortXmitData_bytes_per_second"] * rate["seconds"]; got < 3999 || got > 4001 {
			t.Errorf("%v bytes within an interval: %s", got, line)
		}
	}
}

// TestSA queries the subnet manager of a subnet in this process. TestC compares the text output.
func TestSA(t *testing.T) {
	s := attach(t, tree(t), "h2")
	lid := s.Node("h3").Port(1).Info().LID
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{fmt.Sprintf("NR %d", lid), 0, "NodeDescription.........h3"},
		{fmt.Sprintf("-j NR %d", lid), 0, fmt.Sprintf(`"Lid":%d`, lid)},
		{"--src-to-dst h1:h3", 1, "no node is named"}, // the transport truncates the list of nodes
		{fmt.Sprintf("--src-to-dst %d:%d", lid, lid), 0, fmt.Sprintf("dlid....................%d", lid)},
		{"-c", 0, "SA ClassPortInfo"},
		{"SWIR 0xbfff", 0, ""},
		{"PIR 1/300", 2, `invalid number "300": expected a number from 0 to 255`}, // it was port 44
		{"PIR 1/1/256", 2, "from 0 to 255"},
		{"LR 1/256", 2, "from 0 to 255"},
		{"LR 1/1 2/256", 2, "from 0 to 255"},
		{"MFTR 1/16", 2, "from 0 to 15"},
		{"MFTR 1/1/512", 2, "from 0 to 511"},
		{"PKTR 1/1/65536", 2, "from 0 to 65535"},
		{"LFTR 1/0/1", 2, "LID/NUMBER"},
		{"NR 1/1", 2, "expected LID"},
	} {
		out, stderr, code := run(t, "", "sa", strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(out+stderr, test.want) {
			t.Errorf("%s: exit code %d, %s%s", test.args, code, out, stderr)
		}
	}
}

// TestRoute reads forwarding tables of a switch that answers, and of one that doesn't.
func TestRoute(t *testing.T) {
	s := attach(t, tree(t), "h2")
	lid := s.Node("spine1").Port(0).Info().LID
	out, stderr, code := run(t, "", "route", "-j")
	var all []struct {
		Switch  string
		Unicast []struct{ Lid, Port int }
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 || len(all) != 6 || len(all[0].Unicast) != 14 {
		t.Errorf("exit code %d, %v, %d switches, %s", code, err, len(all), stderr)
	}
	if out, stderr, code = run(t, "", "ibroute", fmt.Sprint(s.Node("h1").Port(1).Info().LID)); code != 1 || !strings.Contains(stderr, "not a switch") {
		t.Errorf("a host: exit code %d, %s%s", code, out, stderr)
	}
	s.Node("spine1").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
		if request.AttrID() == mad.AttrLinearForwardingTable {
			return nil
		}
		return response
	}})
	if out, stderr, code = run(t, "", "ibroute", "-t", "20", fmt.Sprint(lid)); code != 1 || !strings.Contains(stderr, "block 0") {
		t.Errorf("a silent table: exit code %d, %s%s", code, out, stderr)
	}
	if out, stderr, code = run(t, "", "dump_fts", "-n", "-t", "20"); code != 1 || strings.Count(out, "Unicast lids") != 6 || strings.Count(out, "lids dumped") != 5 || !strings.Contains(stderr, "block 0") {
		t.Errorf("a silent table among others: exit code %d, %s%s", code, out, stderr)
	}
	// Control characters of a description must not reach the terminal.
	s.Node("leaf2").SetDescription("\x1b[2Jleaf")
	if out, _, _ = run(t, "", "ibroute", fmt.Sprint(s.Node("leaf2").Port(0).Info().LID)); strings.Contains(out, "\x1b") || !strings.Contains(out, "[2Jleaf") {
		t.Errorf("a description with control characters: %q", out)
	}
}

// TestChanges prints the differences from an earlier discovery.
func TestChanges(t *testing.T) {
	s := attach(t, tree(t), "h2")
	file := filepath.Join(t.TempDir(), "before")
	if out, stderr, code := run(t, "", "discover", "-j", file); code != 0 || out != "" {
		t.Fatalf("exit code %d, %s%s", code, out, stderr)
	}
	if out, stderr, code := run(t, "", "discover", "--diff", file); code != 0 || out != "" {
		t.Errorf("nothing has changed: exit code %d, %s%s", code, out, stderr)
	}
	// The same command prints the same output from a saved discovery, without a fabric.
	saved := filepath.Join(t.TempDir(), "saved")
	full := []string{"discover", "-f", "-m"}
	generated := regexp.MustCompile(`# Topology file: .*\n`)
	want, stderr, code := run(t, "", full[0], append(full[1:], "--cache", saved)...)
	if code != 0 || want == "" {
		t.Fatalf("--cache: exit code %d, %s%s", code, want, stderr)
	}
	t.Run("cache", func(t *testing.T) {
		for _, line := range []string{"discover -l", "discover -p", "links", "links -l --switches-only"} {
			words := strings.Fields(line)
			want, _, _ := run(t, "", words[0], words[1:]...)
			if out, stderr, code := run(t, "", words[0], append(words[1:], "--load-cache", saved)...); code != 0 || out != want {
				t.Errorf("%s: exit code %d, %s\nnot %s%s", line, code, out, want, stderr)
			}
		}
		t.Setenv("SIM_HOST", "nobody")
		out, stderr, code := run(t, "", full[0], append(full[1:], "--load-cache", saved)...)
		if code != 0 || generated.ReplaceAllString(out, "") != generated.ReplaceAllString(want, "") {
			t.Errorf("exit code %d, %s\nnot %s%s", code, out, want, stderr)
		}
		if out, stderr, code := run(t, "", "discover", "--load-cache", saved, "--diff", file); code != 0 || out != "" {
			t.Errorf("--diff of two files: exit code %d, %s%s", code, out, stderr)
		}
	})
	s.Node("h5").Port(1).Unplug()
	s.Node("h6").SetDescription("new name")
	for keys, want := range map[string]string{"ca": "node removed", "nodedesc": "description changed", "lid": "", "sw": ""} {
		if out, stderr, code := run(t, "", "discover", "--diff", file, "--diffcheck", keys); strings.Count(out, "\n") != (code+1)/2 || !strings.Contains(out, want) || (code == 0) != (want == "") {
			t.Errorf("--diffcheck %s: exit code %d, %s%s", keys, code, out, stderr)
		}
	}
	out, stderr, code := run(t, "", "discover", "--diff", file)
	for _, want := range []string{"\"h5\": node removed\n", "\"new name\": description changed, was \"h6\"\n"} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in %s%s", code, want, out, stderr)
		}
	}
	out, stderr, code = run(t, "", "discover", "-j", "--diff", file)
	var changes []struct{ Kind, Node string }
	if err := json.Unmarshal([]byte(out), &changes); err != nil || code != 1 || len(changes) < 2 {
		t.Errorf("exit code %d, %v, %s%s", code, err, out, stderr)
	}
	if err := os.WriteFile(file, []byte("# Topology file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, stderr, code := run(t, "", "discover", "--diff", file); code != 1 || out != "" || !strings.Contains(stderr, "not a discovery") {
		t.Errorf("no JSON: exit code %d, %s%s", code, out, stderr)
	}
}

// TestNoDevice runs the commands on a host without a port.
func TestNoDevice(t *testing.T) {
	if _, err := os.Stat("/sys/class/infiniband_mad/umad0"); err == nil {
		t.Skip("this machine has umad0")
	}
	for _, line := range []string{"perfquery 1", "ibqueryerrors", "ibroute 1", "saquery", "ibportstate 1 1", "check"} {
		words := strings.Fields(line)
		if out, stderr, code := run(t, "", words[0], words[1:]...); code != 1 || out != "" || stderr == "" {
			t.Errorf("%s: exit code %d, %s%s", line, code, out, stderr)
		}
	}
}

func FuzzThresholds(f *testing.F) {
	f.Add("# comment\n\nSymbolErrorCounter=10\nPortXmitWait = 0x10\n")
	f.Add("SymbolErrorCounter")
	f.Add("Nonsense=1")
	f.Fuzz(func(t *testing.T, text string) {
		if limits, err := readThresholds(strings.NewReader(text)); err == nil && strings.Count(limits.text, "[") < len(limits.most) {
			t.Errorf("%q for %v", limits.text, limits.most)
		}
	})
}

func TestHumanCount(t *testing.T) {
	for _, test := range []struct {
		n    uint64
		data bool
		want string
	}{{0, false, "0.000"}, {1234, false, "1.205K"}, {1 << 40, true, "4.000TB"}, {300, true, "1.172KB"}, {1 << 63, true, "32.000EB"}} {
		if got := humanCount(test.n, test.data); got != test.want {
			t.Errorf("%d, %t: %s, not %s", test.n, test.data, got, test.want)
		}
	}
}

// TestSilentCounters runs the commands on a node whose performance management doesn't answer, and on
// one with an unknown M_Key. They must still print the rest.
func TestSilentCounters(t *testing.T) {
	s := attach(t, tree(t), "h2")
	s.Node("h3").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
		if request.Class() == mad.ClassPerf {
			return nil
		}
		return response
	}})
	s.Node("h4").Port(1).Count(func(c *mad.PortCountersExtended) { c.LinkDowned += 200 })
	out, stderr, code := run(t, "", "errors", "-t", "20", "--skip-sl")
	if code != 1 || !strings.Contains(out, "[LinkDownedCounter == 200]") || !strings.Contains(out, "## Summary: 13 nodes checked, 1 bad") || strings.Count(stderr, "query failed on h3") != 1 {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	if got := findings(t); len(got) != 2 || !slices.Contains(got, "errors: h4 1") {
		t.Errorf("check found %q", got)
	}
	if out, stderr, code = run(t, "", "perfquery", "-t", "20", fmt.Sprint(s.Node("h3").Port(1).Info().LID)); code != 1 || out != "" || !strings.Contains(stderr, "no response") {
		t.Errorf("perfquery: exit code %d, %s%s", code, out, stderr)
	}
	guid := fmt.Sprintf("0x%x", uint64(s.Node("h4").Port(1).GUID()))
	if out, stderr, code = run(t, "", "ibqueryerrors", "-G", guid, "-t", "20", "--skip-sl"); code != 1 || !strings.Contains(out, "## Summary: 1 nodes checked, 1 bad") {
		t.Errorf("one node: exit code %d, %s%s", code, out, stderr)
	}
	s.Node("h3").SetFault(madtest.Fault{Silent: true})
	guid = fmt.Sprintf("0x%x", uint64(s.Node("leaf2").Port(0).GUID()))
	if out, stderr, code = run(t, "", "ibqueryerrors", "-G", guid, "-t", "20", "--skip-sl"); code != 0 || !strings.Contains(stderr, "no response") {
		t.Errorf("a node with a silent neighbour: exit code %d, %s%s", code, out, stderr)
	}
	s.Node("h4").Port(1).Change(func(i *mad.PortInfo) { i.MKey, i.ProtectBits = 77, 3 })
	lid := fmt.Sprint(s.Node("h4").Port(1).Info().LID)
	if out, stderr, code = run(t, "", "ibportstate", "-t", "20", lid, "1"); code != 1 || strings.Contains(out, "LinkState") {
		t.Errorf("without the M_Key: exit code %d, %s%s", code, out, stderr)
	}
	if out, stderr, code = run(t, "", "ibportstate", "-y", "77", lid, "1"); code != 0 || !strings.Contains(out, "Mkey:............................<not displayed>") {
		t.Errorf("with the M_Key: exit code %d, %s%s", code, out, stderr)
	}
	if out, _, _ = run(t, "", "ibportstate", "-K", "-y", "77", lid, "1"); !strings.Contains(out, "0x000000000000004d") {
		t.Errorf("-K: %s", out)
	}
}

// TestUnreadCounters checks that errors -k resets only counters that it has read, counts only those
// ports, and asks a node no more that doesn't answer.
func TestUnreadCounters(t *testing.T) {
	type summary struct {
		Nodes    int `json:"nodes_checked"`
		Ports    int `json:"ports_checked"`
		Failures int `json:"failed_queries"`
	}
	s := attach(t, tree(t), "h2")
	guid := fmt.Sprintf("0x%x", uint64(s.Node("leaf2").Port(0).GUID()))
	symbolErrors := func(port int) (n uint64) {
		s.Node("leaf2").Port(port).Count(func(c *mad.PortCountersExtended) { n = c.SymbolErrors })
		return n
	}
	reset := func(options ...string) (got summary) {
		t.Helper()
		for p := 1; p <= 8; p++ {
			s.Node("leaf2").Port(p).Count(func(c *mad.PortCountersExtended) { c.SymbolErrors = 9 })
		}
		out, stderr, code := run(t, "", "errors", append([]string{"-j", "-k", "-K", "--skip-sl", "-t", "20", "-G", guid}, options...)...)
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 {
			t.Errorf("exit code %d, %v: %s%s", code, err, out, stderr)
		}
		return got
	}
	for _, test := range []struct {
		name   string
		unread []byte // values of PortSelect whose counters can't be read
		want   summary
		kept   []int // ports whose counters are not reset
	}{
		{"all", nil, summary{1, 8, 0}, nil},
		{"port 3", []byte{3}, summary{1, 7, 1}, []int{3}},
		{"the sum and port 3", []byte{3, mad.AllPorts}, summary{1, 7, 2}, []int{3}},
		{"none", []byte{1, 2, 3, 4, 5, 6, 7, 8, mad.AllPorts}, summary{0, 0, 9}, []int{1, 2, 3, 4, 5, 6, 7, 8}},
	} {
		s.Node("leaf2").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
			if request.AttrID() == mad.AttrPortCounters && request.Method() == mad.Get && slices.Contains(test.unread, request.Data()[1]) {
				response.SetStatus(mad.StatusBadMethodAttr)
			}
			return response
		}})
		if got := reset(); got != test.want {
			t.Errorf("%s: %+v, not %+v", test.name, got, test.want)
		}
		for p := 1; p <= 8; p++ {
			if kept := slices.Contains(test.kept, p); kept != (symbolErrors(p) != 0) {
				t.Errorf("%s: port %d has %d errors", test.name, p, symbolErrors(p))
			}
		}
	}

	// The node dies while it is read: at the first request that the test names.
	for _, test := range []struct {
		name    string
		deadly  mad.AttrID
		method  mad.Method
		port    byte
		want    summary
		allowed int // requests of performance management
	}{
		{"at once", mad.AttrClassPortInfo, mad.Get, 0, summary{0, 0, 1}, 1},
		{"at port 3", mad.AttrPortCounters, mad.Get, 3, summary{1, 2, 1}, 8},
		{"in a reset", mad.AttrPortCounters, mad.Set, mad.AllPorts, summary{1, 8, 0}, 20},
		{"at details", mad.AttrPortRcvErrorDetails, mad.Get, 1, summary{1, 1, 1}, 8},
	} {
		var mu sync.Mutex                 // guards requests and dead
		requests := make(map[uint64]bool) // by transaction ID, for they are repeated
		dead := false
		s.Node("leaf2").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
			if request.Class() != mad.ClassPerf {
				return response
			}
			mu.Lock()
			defer mu.Unlock()
			requests[request.TID()] = true
			named := request.AttrID() == test.deadly && request.Method() == test.method
			if dead = dead || named && (test.port == 0 || request.Data()[1] == test.port); dead {
				return nil
			}
			return response
		}})
		options := []string{}
		if test.deadly == mad.AttrPortRcvErrorDetails {
			options = []string{"--details"}
			s.Node("leaf2").Port(1).Count(func(c *mad.PortCountersExtended) { c.RcvErrors, c.XmitDiscards = 1, 1 })
		}
		got := reset(options...)
		mu.Lock()
		if got != test.want || len(requests) > test.allowed {
			t.Errorf("%s: %+v after %d requests, not %+v after %d", test.name, got, len(requests), test.want, test.allowed)
		}
		mu.Unlock()
	}
}

// TestMulticast traces a multicast group from one member to another. A trace to a host that is not a
// member must fail.
func TestMulticast(t *testing.T) {
	s := attach(t, tree(t), "h2")
	mgid := verbs.GID{0: 0xff, 1: 0x12, 2: 0x40, 3: 0x1b, 4: 0xff, 5: 0xff, 15: 9}
	var group mad.MCMemberRecord
	for i := range 70 { // a table has blocks of 32 groups
		name := []string{"h1", "h5"}[i%2]
		mgid[15] = byte(i / 2)
		p, err := s.Open(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		c := fabric.NewClient(p, nil)
		attr, err := p.Attr()
		if err != nil {
			t.Fatal(err)
		}
		group = mad.MCMemberRecord{MGID: mgid, PortGID: attr.GIDs[0], JoinState: 1, QKey: 1, PKey: 0xffff}
		mask := mad.MaskMulticastMGID | mad.MaskMulticastPortGID | mad.MaskMulticastJoinState | mad.MaskMulticastQKey | mad.MaskMulticastPKey
		if err := c.SetRecord(t.Context(), mask, &group); err != nil {
			t.Fatal(err)
		}
		c.Close()
		p.Close()
	}
	lid := func(name string) string { return fmt.Sprint(s.Node(name).Port(1).Info().LID) }
	mlid := fmt.Sprintf("0x%x", group.MLID)
	out, stderr, code := run(t, "", "ibtracert", "-m", mlid, lid("h1"), lid("h5"))
	if code != 0 || !strings.HasPrefix(out, "From ca 0x") || strings.Count(out, "-> switch 0x") != 3 || !strings.Contains(out, `"h5"`) || !strings.Contains(out, "\nTo ca 0x") {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	if out, stderr, code = run(t, "", "ibtracert", "-m", mlid, lid("h1"), lid("h7")); code != 1 || !strings.Contains(stderr, "do not reach") {
		t.Errorf("no member: exit code %d, %s%s", code, out, stderr)
	}
	if out, stderr, code = run(t, "", "saquery", "-m"); code != 1 || !strings.Contains(out, "MCMemberRecord member dump:\n\t\tMGID....................ff12:401b:ffff::") || !strings.Contains(stderr, "first segment") {
		t.Errorf("members: exit code %d, %s%s", code, out, stderr)
	}
	if out, stderr, code = run(t, "", "ibroute", "-M", fmt.Sprint(s.Node("leaf1").Port(0).Info().LID)); code != 0 || !strings.Contains(out, mlid+"      ") || !strings.Contains(out, "x ") {
		t.Errorf("table: exit code %d, %s%s", code, out, stderr)
	}
}

// TestCongestionJSON reads the attributes of congestion control as JSON, and what nodes refuse.
func TestCongestionJSON(t *testing.T) {
	s := attach(t, tree(t), "h2")
	sw, ca := s.Node("leaf1").Port(0), s.Node("h3").Port(1)
	sw.ChangeCongestion(func(c *madtest.Congestion) { c.Ports[3].MarkingRate = 9 })
	ca.ChangeCongestion(func(c *madtest.Congestion) {
		c.Limit = 70
		c.Table[65] = mad.CongestionControlEntry{Shift: 1, Multiplier: 5}
		c.CALog.Log[2].RemoteQP = 0xabc
	})
	swLID, caLID := fmt.Sprint(sw.Info().LID), fmt.Sprint(ca.Info().LID)
	for _, test := range []struct {
		operation, lid string
		path           []any // keys and indexes
		want           any
	}{
		{"CP", swLID, []any{"ClassVersion"}, 2.0}, {"CI", caLID, []any{"ControlTableCap"}, 2.0}, {"CK", caLID, []any{"CC_Key"}, "0x0000000000000000"},
		{"CL", swLID, []any{"LogType"}, 1.0}, {"CL", caLID, []any{"Remote_QP_Number_CN_Entry", 2}, 2748.0}, {"SS", swLID, []any{"Threshold"}, "0x00"},
		{"SP", swLID, []any{3, "Cong_Parm_Marking_Rate"}, 9.0}, {"CS", caLID, []any{"CCTI_Timer", 15}, 0.0}, {"CT", caLID, []any{"entries", 65, "CCT_Multiplier"}, 5.0},
		{"TI", caLID, []any{"Timestamp"}, 0.0},
	} {
		out, stderr, code := run(t, "", "congestion", "-j", test.operation, test.lid)
		var got any
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Errorf("%s %s: exit code %d, %v: %s%s", test.operation, test.lid, code, err, out, stderr)
			continue
		}
		for _, key := range test.path {
			switch v := got.(type) {
			case map[string]any:
				got = v[key.(string)]
			case []any:
				got = v[key.(int)]
			}
		}
		if got != test.want {
			t.Errorf("%s: %v is %v, not %v", test.operation, test.path, got, test.want)
		}
	}
	for _, test := range []struct {
		line, want string
		code       int
	}{
		{"SP " + caLID, "not a switch", 1}, {"SP " + swLID + " 9", "ports up to 8", 1}, {"CS " + swLID, "not supported", 1}, {"XX 1", "expected", 2}, {"CI 1 2 3", "3", 2}, {"-c x CI 1", "CC_Key", 2}, {"CI", "ADDRESS", 2},
	} {
		if out, stderr, code := run(t, "", "congestion", strings.Fields(test.line)...); code != test.code || out != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit code %d, %s%s", test.line, code, out, stderr)
		}
	}
	s.Node("h3").SetFault(madtest.Fault{Alter: func(request, response mad.MAD) mad.MAD {
		if request.AttrID() == mad.AttrCongestionLog {
			response.Data()[0] = 9
		}
		return response
	}})
	if out, stderr, code := run(t, "", "congestion", "CL", caLID); code != 1 || out != "" || !strings.Contains(stderr, "unknown type of CongestionLog: 9") {
		t.Errorf("a log of an unknown type: exit code %d, %s%s", code, out, stderr)
	}
}
