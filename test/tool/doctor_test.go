//go:build vm

package tool

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
)

// symptom is what rdmalink doctor is to find: words of the finding and of the
// remedy.
type symptom struct{ check, finding, remedy string }

type doctorFinding struct{ Check, Level, Finding, Remedy string }

// diagnose runs the doctor as cmd does, and returns the problems.
func diagnose(t *testing.T, cmd *exec.Cmd) (problems []doctorFinding) {
	t.Helper()
	got := kit.RunCommand(t, cmd)
	var all []doctorFinding
	if err := json.Unmarshal([]byte(got.Out), &all); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	for _, f := range all {
		if f.Level == "problem" {
			problems = append(problems, f)
		}
	}
	code := 0
	if problems != nil {
		code = 1
	}
	if got.Code != code || (code == 1) != strings.HasPrefix(got.Err, "rdmalink: doctor found ") {
		t.Errorf("exit code %d, want %d: %s", got.Code, code, got.Err)
	}
	return problems
}

// ill wants these problems found, and no other.
func ill(t *testing.T, cmd *exec.Cmd, want ...symptom) {
	t.Helper()
	problems := diagnose(t, cmd)
	if len(problems) != len(want) {
		t.Errorf("%d problems, want %d: %+v", len(problems), len(want), problems)
	}
	for _, s := range want {
		if !slices.ContainsFunc(problems, func(f doctorFinding) bool {
			return f.Check == s.check && strings.Contains(f.Finding, s.finding) && strings.Contains(f.Remedy, s.remedy)
		}) {
			t.Errorf("not found: %+v\nfound: %+v", s, problems)
		}
	}
}

func doctor(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(kit.RdmalinkPath(t), append([]string{"-j", "doctor"}, words...)...)
}

// TestDoctor makes one thing wrong after the other on links that are well.
func TestDoctor(t *testing.T) {
	kit.Only612(t)
	everybodys := everybodysRdmalink(t)
	for _, typ := range kit.LinkTypes() {
		t.Run(typ, func(t *testing.T) {
			netdev, name := "doc"+typ, "gvdoc"+typ
			kit.Dummy(t, netdev, "10.90.1.1/24")
			d := kit.Link(t, name, typ, netdev)
			kit.NoLeak(t)
			ill(t, doctor(t, name))
			if got := kit.RunCommand(t, doctor(t, name)); !strings.Contains(got.Out, name+" connects to its own address 10.90.1.1") {
				t.Errorf("no connection: %+v", got)
			}
			if typ == "rxe" { // no driver has a part in these
				deniedNodes(t, d, everybodys)
				ill(t, kit.Nobody(exec.Command("sh", "-c", "ulimit -l 64; exec "+everybodys+" -j doctor "+name)),
					symptom{"memlock", "RLIMIT_MEMLOCK allows this process 64 KiB of registered memory", "ulimit -l unlimited"})
				rationed(t, name)
			}
			kit.Sh(t, "ip link set "+netdev+" down")
			ill(t, doctor(t, name), symptom{"port", name + "/1 is DOWN, DISABLED: network device " + netdev + " is down", "ip link set " + netdev + " up"})
			kit.Sh(t, "echo 1 > /proc/sys/net/ipv6/conf/"+netdev+"/disable_ipv6 && ip addr flush dev "+netdev+" && ip link set "+netdev+" up")
			if typ == "rxe" {
				// Its GIDs go in their own time, but for the one that it always has.
				kit.Until(t, "without GIDs", func() bool {
					return !strings.Contains(kit.Sh(t, "cat /sys/class/infiniband/"+name+"/ports/1/gids/*"), "ffff:0a5a")
				})
			}
			ill(t, doctor(t, name), symptom{"address", netdev + " has no IP address outside 127/8, by which rdma_cm would find " + name, "ip addr add ADDRESS/LENGTH dev " + netdev})
			kit.Sh(t, "ip addr add 10.90.1.1/24 dev "+netdev)
			if typ == "rxe" {
				kit.Until(t, "with its GID", func() bool {
					return strings.Contains(kit.Sh(t, "cat /sys/class/infiniband/"+name+"/ports/1/gids/*"), "ffff:0a5a")
				})
			}
			ill(t, doctor(t, name))
		})
	}
}

// deniedNodes hides the node of a device, puts another in its place, and forbids
// it.
func deniedNodes(t *testing.T, d netlinkrdma.Device, everybodys string) {
	t.Helper()
	node := "/dev/infiniband/" + kit.Must(new(netlinkrdma.Client).UverbsCharDev(d.Index))(t).Name
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(node, node+".hidden")
	ill(t, doctor(t, d.Name), symptom{"nodes", "open device on " + d.Name + ": open " + node + ": no such file or directory", "mknod -m 666 " + node + " c "})
	if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	ill(t, doctor(t, d.Name), symptom{"nodes", "open device on " + d.Name, ""})
	rename(node+".hidden", node)
	if err := os.Chmod(node, 0o600); err != nil {
		t.Fatal(err)
	}
	ill(t, kit.Nobody(exec.Command(everybodys, "-j", "doctor", d.Name)),
		symptom{"nodes", "open device on " + d.Name + ": open " + node + ": permission denied", "chmod 666 " + node})
	if err := os.Chmod(node, 0o666); err != nil {
		t.Fatal(err)
	}
	ill(t, kit.Nobody(exec.Command(everybodys, "-j", "doctor", d.Name)))
}

// rationed runs it in a cgroup that allows too little.
func rationed(t *testing.T, name string) {
	t.Helper()
	kit.Sh(t, "mount -t cgroup2 cgroup2 /sys/fs/cgroup && echo +rdma > /sys/fs/cgroup/cgroup.subtree_control && mkdir -p /sys/fs/cgroup/job")
	defer kit.Sh(t, "rmdir /sys/fs/cgroup/job && umount /sys/fs/cgroup")
	within := func(limit string) *exec.Cmd {
		kit.Sh(t, "echo '"+name+" "+limit+"' > /sys/fs/cgroup/job/rdma.max")
		return exec.Command("sh", "-c", "echo $$ > /sys/fs/cgroup/job/cgroup.procs && exec "+kit.RdmalinkPath(t)+" -j doctor "+name)
	}
	ill(t, within("hca_handle=0 hca_object=max"),
		symptom{"nodes", "open device on " + name + ": resource temporarily unavailable", "rdma.max"},
		symptom{"cgroup", name + ": the cgroup allows 0 hca_handle and has 0", "echo '" + name + " hca_handle=max' > /sys/fs/cgroup/job/rdma.max"})
	ill(t, within("hca_handle=max hca_object=0"),
		symptom{"cgroup", name + ": the cgroup allows 0 hca_object and has 0", "hca_object=max"},
		symptom{"register", "create PD on " + name + ": resource temporarily unavailable", "rdma.max"})
	ill(t, within("hca_handle=1 hca_object=1000")) // which the doctor has, and gives back
}

// TestDoctorOnLoopback examines links that come up, and can't connect; seen from another network namespace too.
func TestDoctorOnLoopback(t *testing.T) {
	kit.Only612(t)
	kit.Sh(t, "ip netns add gvdoc && ip -n gvdoc link set lo up")
	t.Cleanup(func() { kit.Sh(t, "ip netns del gvdoc") })
	there := func(cmd *exec.Cmd) *exec.Cmd {
		return exec.Command("ip", append([]string{"netns", "exec", "gvdoc"}, cmd.Args...)...)
	}
	for _, typ := range kit.LinkTypes() {
		name := "gvlo" + typ
		kit.Sh(t, "ip netns exec gvdoc rdma link add "+name+" type "+typ+" netdev lo")
		switch typ {
		case "siw":
			ill(t, there(doctor(t, name)),
				symptom{"address", "lo has no IP address outside 127/8, by which rdma_cm would find " + name, "ip addr add 192.0.2.1/32 dev lo"},
				symptom{"gid", name + "/1 has no GID, because lo had no hardware address when the link was added",
					"rdmalink del gvlosiw, then rdmalink add gvlosiw type siw netdev lo"})
		case "rxe":
			ill(t, there(doctor(t, name)), symptom{"address", name + " is on lo, where rdma_cm can't connect through rxe", "dummy or veth"})
		}
		ill(t, doctor(t, name), symptom{"netns", name + "/1 has no network device in this network namespace", "run the program in the network namespace"})
		kit.Sh(t, "rdma link del "+name)
	}
}

// TestDoctorWithoutModules takes rdma_cm's away, and the software drivers'.
func TestDoctorWithoutModules(t *testing.T) {
	kit.Only612(t)
	kit.NoFabric(t)
	kit.NoRxeFabric(t)
	kit.Dummy(t, "docmod", "10.90.2.1/24")
	t.Run("rdma_cm", func(t *testing.T) {
		kit.Link(t, "gvdocmod", "rxe", "docmod")
		kit.Unload(t, "rdma_ucm")
		t.Cleanup(func() { kit.Sh(t, "modprobe rdma_ucm") })
		ill(t, doctor(t), symptom{"rdma_cm", "open /dev/infiniband/rdma_cm: no such file or directory", "run modprobe rdma_ucm"})
	})
	none := symptom{"devices", "there is no RDMA device in this network namespace", "rdmalink add " + kit.LinkTypes()[0] + "0 type " + kit.LinkTypes()[0]}
	ill(t, doctor(t), none)
	hideModules(t)
	none.remedy = "rdmalink add siw0 type siw netdev NETDEV adds a software device" // as far as the doctor can know
	ill(t, doctor(t), none)
	release := "/lib/modules/" + strings.TrimSpace(kit.Sh(t, "uname -r"))
	kit.Sh(t, "mkdir -p "+release+" && touch "+release+"/modules.dep")
	t.Cleanup(func() { kit.Sh(t, "rm -r "+release) })
	none.remedy = "install the modules of this kernel"
	ill(t, doctor(t), none)
}

// hideModules keeps modprobe and the kernel from finding any.
func hideModules(t *testing.T) {
	t.Helper()
	modules := "/lib/modules/" + strings.TrimSpace(kit.Sh(t, "uname -r"))
	if err := os.Rename(modules, modules+".hidden"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Rename(modules+".hidden", modules); err != nil {
			t.Error(err)
		}
	})
}

// TestDoctorDCB examines a network device of the kernel that has no DCB, and queues that mark packets.
func TestDoctorDCB(t *testing.T) {
	kit.Only612(t)
	kit.Dummy(t, "docdcb", "10.90.2.1/24")
	kit.Link(t, "gvdocdcb", "rxe", "docdcb")
	for _, want := range []string{"docdcb has no DCB; soft RoCE retransmits lost packets", "docdcb has no kernel queue that marks packets"} {
		if out := kit.Rdmalink(t, "-j doctor gvdocdcb"); !strings.Contains(out.Out, want) {
			t.Errorf("no %q in %+v", want, out)
		}
	}
}

// TestSelftest checks that on a kernel's devices all that they offer passes the doctor's self-test.
func TestSelftest(t *testing.T) {
	kit.Only612(t)
	for _, typ := range kit.LinkTypes() {
		t.Run(typ, func(t *testing.T) {
			kit.Dummy(t, "self"+typ, "10.90.2.1/24")
			kit.Link(t, "gvself"+typ, typ, "self"+typ)
			kit.NoLeak(t)
			got := kit.RunCommand(t, doctor(t, "--selftest", "gvself"+typ))
			var all []struct{ Test, Result, Detail string }
			if err := json.Unmarshal([]byte(got.Out), &all); err != nil || got.Code != 0 {
				t.Errorf("%v: exit code %d: %s", err, got.Code, got.Err)
			}
			passed := 0
			for _, l := range all {
				t.Logf("%-7s %-26s %s", l.Result, l.Test, l.Detail)
				if l.Result == "ok" {
					passed++
				}
			}
			if want := map[string]int{"rxe": 47, "siw": 13}[typ]; passed < want {
				t.Errorf("%d tests are ok, want %d", passed, want)
			}
		})
	}
}
