//go:build vm

package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// output is the result of a command.
type output struct {
	Out, Err string
	Code     int
}

func runCommand(t *testing.T, cmd *exec.Cmd) output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return output{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func rdmalink(t *testing.T, line string) output {
	t.Helper()
	return runCommand(t, exec.Command(rdmalinkPath(t), strings.Fields(line)...))
}

func iproute2(t *testing.T, line string) output {
	t.Helper()
	return debianRDMA.run(t, line)
}

func TestAddAndDelete(t *testing.T) {
	dummy(t, "add0", "10.1.1.1/24")
	for _, typ := range linkTypes() {
		for _, line := range []string{"add gvadd type " + typ + " netdev add0", "link add gvadd type " + typ + " netdev add0"} {
			if diff := cmp.Diff(output{}, rdmalink(t, line)); diff != "" {
				t.Fatalf("%s:\n%s", line, diff)
			}
			const want = "link gvadd/1 state ACTIVE physical_state LINK_UP netdev add0 \n"
			if diff := cmp.Diff(output{Out: want}, iproute2(t, "link show gvadd/1")); diff != "" {
				t.Error(diff)
			}
			del := strings.Replace(strings.Fields(line)[0], "add", "del", 1)
			if del == "link" {
				del = "link delete"
			}
			if diff := cmp.Diff(output{}, rdmalink(t, del+" gvadd")); diff != "" {
				t.Error(diff)
			}
		}
	}
	if out := iproute2(t, "link").Out; strings.Contains(out, "gvadd") {
		t.Errorf("still there: %s", out)
	}
}

// TestLinkErrors pins the words to the errnos real kernels give.
func TestLinkErrors(t *testing.T) {
	for _, typ := range linkTypes() {
		t.Run(typ, func(t *testing.T) { linkErrors(t, typ) })
	}
}

func linkErrors(t *testing.T, typ string) {
	noFabric(t) // the errors would list its links
	dummy(t, "err0", "10.1.1.1/24")
	dummy(t, "err1", "10.1.2.1/24")
	link(t, "gverr", typ, "err0")
	sh(t, "ip link add link err1 name err1.5 type vlan id 5 && ip link set err1.5 up && ip addr add 10.1.3.1/24 dev err1.5")
	t.Cleanup(func() { sh(t, "ip link del err1.5") })
	wants := map[string]string{
		"add gvx type " + typ + " netdev err0":  "add gvx: err0 already has a link of type " + typ + ", and can have one only; on it there is gverr (file exists)",
		"add gvx type " + typ + " netdev nodev": `add gvx: no network device "nodev" in this network namespace (there are: lo, err0, err1, err1.5)`,
		"add gvx type nosuch netdev err1":       `add gvx: the kernel has no link type "nosuch" and found no module rdma-link-nosuch for it, or the driver does not take err1. The types are siw and rxe (invalid argument)`,
		"add gvx type rxe netdev err1.5":        "add gvx: rxe takes no VLAN device such as err1.5: add it on the device below (operation not permitted)",
		"del nosuch":                            `delete nosuch: no such RDMA device: "nosuch" (there are: gverr)`,
	}
	for _, other := range linkTypes() {
		wants["add gverr type "+other+" netdev err1"] = "add gverr: the name gverr is taken: choose another, or rdmalink del gverr (too many open files in system)"
	}
	for line, want := range wants {
		if diff := cmp.Diff(output{Err: "rdmalink: " + want + "\n", Code: 1}, rdmalink(t, line)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestLinkWithoutPrivilege(t *testing.T) {
	dummy(t, "priv0", "10.1.1.1/24")
	// The checkout may lie in a home that nobody may look into.
	const everybodys = "/tmp/everybodys/rdmalink"
	sh(t, "install -D -m 755 "+rdmalinkPath(t)+" "+everybodys)
	t.Cleanup(func() { sh(t, "rm -r /tmp/everybodys") })
	unprivileged := func(args ...string) output { return runCommand(t, nobody(exec.Command(everybodys, args...))) }
	const remedy = "needs CAP_NET_ADMIN in the initial user namespace (run as root, or setcap cap_net_admin+ep): operation not permitted\n"
	for _, typ := range linkTypes() {
		d := link(t, "gvpriv"+typ, typ, "priv0")
		want := output{Err: "rdmalink: add link x type " + typ + " netdev priv0: " + remedy, Code: 1}
		if diff := cmp.Diff(want, unprivileged("add", "x", "type", typ, "netdev", "priv0")); diff != "" {
			t.Error(diff)
		}
		got := unprivileged("del", "gvpriv"+typ)
		if got.Code != 1 || !strings.HasPrefix(got.Err, "rdmalink: delete link of "+d.Name+": ") || !strings.HasSuffix(got.Err, remedy) {
			t.Errorf("delete device %d: %+v", d.Index, got)
		}
	}
	if diff := cmp.Diff(iproute2(t, "link"), unprivileged("show")); diff != "" {
		t.Errorf("show needs no privilege:\n%s", diff)
	}
}

// TestLinkWithoutModule hides the kernel's modules, so that its own request for
// the driver fails.
func TestLinkWithoutModule(t *testing.T) {
	dummy(t, "mod0", "10.1.1.1/24")
	noFabric(t)
	for _, module := range []string{"siw", "rdma_rxe"} {
		unload(t, module)
	}
	hideModules(t)
	for typ, module := range map[string]string{
		"siw": "modprobe siw. Some kernels, Debian's among them, are built without it (CONFIG_RDMA_SIW)",
		"rxe": "modprobe rdma_rxe. Cloud kernels are often built without it (CONFIG_RDMA_RXE)",
	} {
		want := fmt.Sprintf("rdmalink: add x: the kernel has no link type %q and found no module rdma-link-%s for it, or the driver does not take mod0. "+
			"Try: %s (invalid argument)\n", typ, typ, module)
		if diff := cmp.Diff(output{Err: want, Code: 1}, rdmalink(t, "add x type "+typ+" netdev mod0")); diff != "" {
			t.Error(diff)
		}
	}
}

// TestLinkInChroot: rdmalink needs no /sys, /proc, /dev or /etc.
func TestLinkInChroot(t *testing.T) {
	only612(t)
	dummy(t, "jail0", "10.1.1.1/24")
	root := t.TempDir()
	binary, err := os.ReadFile(rdmalinkPath(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "rdmalink"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, typ := range linkTypes() {
		for _, step := range []struct{ line, want string }{
			{"add gvjail type " + typ + " netdev jail0", ""},
			{"show gvjail", "link gvjail/1 state ACTIVE physical_state LINK_UP netdev jail0 \n"},
			{"del gvjail", ""},
		} {
			cmd := exec.Command("/rdmalink", strings.Fields(step.line)...)
			cmd.Dir, cmd.Env = "/", []string{}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
			if diff := cmp.Diff(output{Out: step.want}, runCommand(t, cmd)); diff != "" {
				t.Errorf("%s:\n%s", step.line, diff)
			}
		}
	}
}

// TestNetlinkAsSysfs compares netlink's answers with the kernel's files.
func TestNetlinkAsSysfs(t *testing.T) {
	noFabric(t) // whose devices would be counted
	for i, typ := range linkTypes() {
		dummy(t, typ+"netdev", fmt.Sprintf("10.1.%d.1/24", i+1))
		link(t, typ+"sys", typ, typ+"netdev")
	}
	var c netlinkrdma.Client
	devices, err := c.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(devices) != len(linkTypes()) {
		t.Errorf("%d devices, want those of %v", len(devices), linkTypes())
	}
	for _, d := range devices {
		sysfs := "/sys/class/infiniband/" + d.Name + "/"
		same(t, sysfs+"node_guid", d.NodeGUID.String())
		same(t, sysfs+"sys_image_guid", d.SysImageGUID.String())
		u, err := c.UverbsCharDev(d.Index)
		if err != nil {
			t.Fatal(err)
		}
		sameCharDev(t, "/sys/class/infiniband_verbs/"+u.Name+"/", u)
		same(t, "/sys/class/infiniband_verbs/"+u.Name+"/ibdev", d.Name)
	}
	cm, err := c.CMCharDev()
	if err != nil {
		t.Fatal(err)
	}
	sameCharDev(t, "/sys/class/misc/rdma_cm/", cm)
	if _, err := c.Ports(4711); !errors.Is(err, netlinkrdma.ErrNotFound) {
		t.Errorf("ports of no device: %v", err)
	}
}

func same(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(want)) != got {
		t.Errorf("%s: %q, netlink says %q", file, want, got)
	}
}

func sameCharDev(t *testing.T, sysfs string, d netlinkrdma.CharDev) {
	t.Helper()
	same(t, sysfs+"dev", fmt.Sprintf("%d:%d", d.Major, d.Minor))
	same(t, sysfs+"abi_version", strconv.FormatUint(d.ABI, 10))
}
