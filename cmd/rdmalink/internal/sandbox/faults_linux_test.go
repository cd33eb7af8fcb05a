package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// newFaults returns the faults of a network of two hosts, whose devices have no files.
func newFaults(t testing.TB) *faults {
	network := rdmatest.New(t)
	registered := kernel.Registered()
	k := registered[len(registered)-1]
	f := &faults{network: network, undo: make(map[string]func())}
	for i, h := range network.Hosts() {
		d, err := newVerbsDevice(k, i, h.Device(0))
		if err != nil {
			t.Fatal(err)
		}
		f.hosts = append(f.hosts, &machine{devices: []*verbsDevice{d}, tree: filepath.Join(os.TempDir(), "none")})
	}
	return f
}

// TestFaultLines reads and begins each kind of line, and reads lines that are wrong.
func TestFaultLines(t *testing.T) {
	f := newFaults(t)
	for _, line := range []string{
		"latency 5us", "latency 0s", "bandwidth 1000000", "bandwidth 0", "loss 0.5", "loss 0", "reordering 1", "reordering 0",
		"partition 1 2", "partition 2 1", "partition 2 1 off", "partition 1 2 off", "pause", "pause", "pause off", "stall-receives 2", "stall-receives 2 off",
		"link 1 down", "link 1 up", "1s link 2 down", "link 2 up", "address 1 add 198.51.100.7", "address 2 add 198.51.100.7", "address 2 remove 198.51.100.7", "remove 2",
	} {
		p, err := f.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		p.begin()
	}
	if len(f.undo) != 0 {
		t.Error("these states are on:", f.undo)
	}
	single := []string{"fail 1 REG_MR ENOMEM", "fail 1 any EIO 3", "fail-send 1 12", "fail-recv 2 4 1", "cut-send 1 100", "fail-cm CONNECT ENODEV"}
	for _, line := range single {
		p, err := f.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		p.begin()
	}
	if idle := f.idle(); strings.Join(idle, "\n") != strings.Join(single, "\n") {
		t.Errorf("%q have not happened", idle)
	}
	for _, o := range f.once {
		o.Stop()
	}
	for _, line := range []string{
		"", "1s", "lost 1", "latency", "latency 5", "latency -5us", "bandwidth -1", "bandwidth 1e9", "loss 1.1", "loss NaN", "loss 0.1 0.2", "partition 1", "partition 1 3",
		"partition 1 2 on", "link 0 up", "link 1", "link 1 sideways", "remove", "address 1", "address 1 add", "address 1 move 198.51.100.7", "address 1 add nowhere", "fail 1", "fail 1 REG_MR", "fail 1 REG_MR 12", "fail 1 REG_MR ENOMEM -1",
		"pause" + strings.Repeat(" ", longestLine), "fail-send 1 0", "fail-send 1 99", "cut-send 1 -1", "fail-cm connect EINVAL", "hold-cm", "5s 6s pause",
	} {
		if _, err := f.parse(line); err == nil {
			t.Errorf("%q is a fault", line)
		}
	}
}

// TestFaultLinesOfFabric reads and begins lines about the adapters of a subnet, which have names and numbers.
func TestFaultLinesOfFabric(t *testing.T) {
	subnet, err := newSubnet("fat-tree:4x2", true)
	if err != nil {
		t.Fatal(err)
	}
	hosts := newFabricHosts(subnet, t.TempDir(), 0)
	f := &faults{network: hosts.network, subnet: hosts, undo: make(map[string]func())}
	for _, line := range []string{"loss 0.1", "partition h1 8", "stall-receives h2", "stall-receives h3", "link h8 down", "fail 2:mlx5_0 REG_MR ENOMEM"} {
		p, err := f.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		p.begin()
	}
	if len(f.undo) != 3 {
		t.Error("these states are on:", f.undo)
	}
	port := subnet.Node("h8").Port(1)
	if s := port.Info().LinkState; s != verbs.PortDown {
		t.Error(s)
	}
	for _, line := range []string{"partition h8 1 off", "stall-receives 2 off", "stall-receives 3 off", "link 8 up"} {
		p, err := f.parse(line)
		if err != nil {
			t.Fatal(err)
		}
		p.begin()
	}
	if len(f.undo) != 0 {
		t.Error("these states are on:", f.undo)
	}
	if s := port.Info().LinkState; s == verbs.PortDown {
		t.Error(s)
	}
	f.once[0].Stop()
	for line, want := range map[string]string{
		"remove 1": "can't be removed", "address 1 add 198.51.100.7": "is not on RoCE", "link spine1 down": "HOST from 1 to 8, or the name of an adapter", "link h9 down": "HOST from 1 to 8",
		"partition h1 9": "HOST from 1 to 8", "link :mlx5_0 down": "HOST from 1 to 8",
	} {
		if _, err := f.parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestFaultsMany checks that a sandbox takes a limited number of lines.
func TestFaultsMany(t *testing.T) {
	f := newFaults(t)
	f.lines = mostLines - 1
	if _, err := f.parse("pause off"); err != nil {
		t.Error(err)
	}
	if _, err := f.parse("pause off"); err == nil {
		t.Error("one more line than there may be")
	}
}

func FuzzFaultLine(f *testing.F) {
	faults := newFaults(f)
	for _, seed := range []string{"5s latency 5us", "partition 1 2 off", "fail 1 REG_MR ENOMEM 3", "fail-cm CONNECT EIO", "cut-send 2 4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		faults.lines = 0
		if p, err := faults.parse(line); err == nil && p.begin == nil {
			t.Error("no fault")
		}
	})
}

// TestFaults makes faults happen around programs: by the command line, by a file, and by the control socket.
func TestFaults(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("# the beginning\n\nlink 1 down # at once\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const state = "cat /sys/class/infiniband/rxe0/ports/1/state"
	for _, option := range []string{"--fault=link 1 down", "--faults=" + script} {
		if out, err := inside(t, []string{option}, "sh", "-c", state); err != nil || out != "1: DOWN\n" {
			t.Errorf("%s: %v\n%s", option, err, out)
		}
	}
	socket := filepath.Join(dir, "socket")
	fault := fmt.Sprintf("%s=%s %s fault %s ", errorFile, filepath.Join(dir, "error"), os.Args[0], socket)
	lines := []string{state, fault + "link 1 down", state, fault + "link 1 up", state, "! " + fault + "link 1 sideways", fault + "remove 1", "ls /dev/infiniband", "! " + fault + "1s pause"}
	out, err := inside(t, []string{"--control", socket}, "sh", "-c", strings.Join(lines, " && "))
	if err != nil || out != "4: ACTIVE\n1: DOWN\n4: ACTIVE\nrdma_cm\n" {
		t.Errorf("%v\n%s", err, out)
	}
	const gid = "cat /sys/class/infiniband/rxe0/ports/1/gids/2 && "
	out, err = inside(t, []string{"--control", socket, "--fault=address 1 add 198.51.100.7"}, "sh", "-c",
		gid+fault+"address 1 remove 198.51.100.7 && "+gid+fault+"address 1 add 2001:db8::7 && "+gid+"cat /sys/class/infiniband/rxe0/ports/1/gid_attrs/types/2")
	if err != nil || out != "0000:0000:0000:0000:0000:ffff:c633:6407\n0000:0000:0000:0000:0000:0000:0000:0000\n2001:0db8:0000:0000:0000:0000:0000:0007\nRoCE v2\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := inside(t, []string{"-d", "siw", "--fault=address 1 add 198.51.100.7"}, "true"); err == nil || !strings.Contains(err.Error(), "siw0 is not on RoCE") {
		t.Errorf("%v\n%s", err, out)
	}
	const port = "cat /sys/class/infiniband/mlx5_0/ports/1/state"
	out, err = inside(t, []string{"--fabric", "fat-tree:4x2", "--control", socket, "--fault=link h8 down"}, "sh", "-c",
		port+" && export "+hostVariable+"=h8 && "+port+" && "+fault+"link h8 up && until "+port+" | grep ACTIVE; do sleep 0.01; done")
	if err != nil || out != "4: ACTIVE\n1: DOWN\n4: ACTIVE\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the control socket is still there")
	}
	if out, err := inside(t, []string{"--fault", "fail 1 REG_MR ENOMEM", "--fault", "1h pause"}, "true"); err != nil || !strings.Contains(out, `"fail 1 REG_MR ENOMEM" has not happened`) || !strings.Contains(out, "1 of the faults were planned") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, option := range []string{"--fault=nothing", "--faults=" + dir, "--control=" + filepath.Join(dir, "no", "socket"), "--control=" + script} {
		if _, err := inside(t, []string{option}, "true"); err == nil {
			t.Errorf("%s is accepted", option)
		}
	}
}

// TestFaultsOfPrograms shows C's programs what the network and the devices do.
func TestFaultsOfPrograms(t *testing.T) {
	long(t)
	need(t, "rping")
	need(t, "ibv_asyncwatch")
	ends := rpings(t, "rping -s -a 198.51.100.1", "rping -c -a 198.51.100.1")
	if out, err := inside(t, []string{"--fault", "loss 0.2", "--seed", "7"}, "sh", "-c", ends); err != nil || len(pinged.FindAllString(out, -1)) != 2 {
		t.Errorf("with loss: %v\n%s", err, out)
	}
	if out, err := inside(t, []string{"--fault", "fail-cm LISTEN ENOSPC"}, "rping", "-s"); err == nil || !strings.Contains(out, "rdma_listen: No space left") {
		t.Errorf("a listen that fails: %v\n%s", err, out)
	}
	socket := filepath.Join(t.TempDir(), "socket")
	fault := rdmalink(t) + " sandbox fault " + socket + " "
	out, err := inside(t, []string{"--control", socket}, "sh", "-c", fmt.Sprintf(
		"stdbuf -oL ibv_asyncwatch -d rxe0 > %[1]s.out & until grep -q FD %[1]s.out; do kill -0 $! || exit 1; sleep 0.01; done; %[2]s address 1 add 198.51.100.7 && %[2]s link 1 down && %[2]s link 1 up && until grep -q IBV_EVENT_PORT_ACTIVE %[1]s.out; do kill -0 $! || exit 1; sleep 0.01; done; kill $!; cat %[1]s.out", socket, fault))
	if err != nil || !strings.Contains(out, "IBV_EVENT_PORT_ERR") || !strings.Contains(out, "IBV_EVENT_GID_CHANGE") {
		t.Errorf("%v\n%s", err, out)
	}
}
