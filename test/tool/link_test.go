//go:build vm

package tool

import (
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
	"github.com/goverbs/goverbs/test/kit"
)

func TestAddAndDelete(t *testing.T) {
	kit.Dummy(t, "add0", "10.1.1.1/24")
	for _, typ := range kit.LinkTypes() {
		for _, line := range []string{"add gvadd type " + typ + " netdev add0", "link add gvadd type " + typ + " netdev add0"} {
			if diff := cmp.Diff(kit.Output{}, kit.Rdmalink(t, line)); diff != "" {
				t.Fatalf("%s:\n%s", line, diff)
			}
			const want = "link gvadd/1 state ACTIVE physical_state LINK_UP netdev add0 \n"
			if diff := cmp.Diff(kit.Output{Out: want}, kit.Iproute2(t, "link show gvadd/1")); diff != "" {
				t.Error(diff)
			}
			del := strings.Replace(strings.Fields(line)[0], "add", "del", 1)
			if del == "link" {
				del = "link delete"
			}
			if diff := cmp.Diff(kit.Output{}, kit.Rdmalink(t, del+" gvadd")); diff != "" {
				t.Error(diff)
			}
		}
	}
	if out := kit.Iproute2(t, "link").Out; strings.Contains(out, "gvadd") {
		t.Errorf("still there: %s", out)
	}
}

// TestLinkErrors pins the words to the errnos real kernels give.
func TestLinkErrors(t *testing.T) {
	for _, typ := range kit.LinkTypes() {
		t.Run(typ, func(t *testing.T) { linkErrors(t, typ) })
	}
}

func linkErrors(t *testing.T, typ string) {
	kit.NoFabric(t) // the errors would list its links
	kit.Dummy(t, "err0", "10.1.1.1/24")
	kit.Dummy(t, "err1", "10.1.2.1/24")
	kit.Link(t, "gverr", typ, "err0")
	kit.Sh(t, "ip link add link err1 name err1.5 type vlan id 5 && ip link set err1.5 up && ip addr add 10.1.3.1/24 dev err1.5")
	t.Cleanup(func() { kit.Sh(t, "ip link del err1.5") })
	wants := map[string]string{
		"add gvx type " + typ + " netdev err0":  "add link gvx type " + typ + " netdev err0: file exists: the name gvx is taken, or err0 already has a link of type " + typ + ", and can have only one; on it is gverr",
		"add gvx type " + typ + " netdev nodev": `add gvx: no network device "nodev" in this network namespace (available: lo, err0, err1, err1.5)`,
		"add gvx type nosuch netdev err1":       `add link gvx type nosuch netdev err1: invalid argument: the kernel has no link type "nosuch" and found no module rdma-link-nosuch for it, or the driver does not support err1. The types are siw and rxe`,
		"add gvx type rxe netdev err1.5":        "add link gvx type rxe netdev err1.5: needs CAP_NET_ADMIN in the initial user namespace: operation not permitted: run as root, or setcap cap_net_admin+ep; rxe also refuses VLANs so: add the link on the device below",
		"del nosuch":                            `delete nosuch: find RDMA device "nosuch": no such RDMA device: there are gverr`,
	}
	for _, other := range kit.LinkTypes() {
		wants["add gverr type "+other+" netdev err1"] = "add link gverr type " + other + " netdev err1: too many open files in system: the name gverr is taken: choose another, or rdmalink del gverr"
	}
	for line, want := range wants {
		if diff := cmp.Diff(kit.Output{Err: "rdmalink: " + want + "\n", Code: 1}, kit.Rdmalink(t, line)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

func TestLinkWithoutPrivilege(t *testing.T) {
	kit.Dummy(t, "priv0", "10.1.1.1/24")
	// The checkout may lie in a home that nobody may look into.
	const everybodys = "/tmp/everybodys/rdmalink"
	kit.Sh(t, "install -D -m 755 "+kit.RdmalinkPath(t)+" "+everybodys)
	t.Cleanup(func() { kit.Sh(t, "rm -r /tmp/everybodys") })
	unprivileged := func(args ...string) kit.Output {
		return kit.RunCommand(t, kit.Nobody(exec.Command(everybodys, args...)))
	}
	const remedy = "needs CAP_NET_ADMIN in the initial user namespace: operation not permitted: run as root, or setcap cap_net_admin+ep\n"
	for _, typ := range kit.LinkTypes() {
		d := kit.Link(t, "gvpriv"+typ, typ, "priv0")
		want := kit.Output{Err: "rdmalink: add link x type " + typ + " netdev priv0: " + remedy, Code: 1}
		if typ == "rxe" {
			want.Err = strings.TrimSuffix(want.Err, "\n") + "; rxe also refuses VLANs so: add the link on the device below\n"
		}
		if diff := cmp.Diff(want, unprivileged("add", "x", "type", typ, "netdev", "priv0")); diff != "" {
			t.Error(diff)
		}
		got := unprivileged("del", "gvpriv"+typ)
		if got.Code != 1 || !strings.HasPrefix(got.Err, "rdmalink: delete link of "+d.Name+": ") || !strings.HasSuffix(got.Err, remedy) {
			t.Errorf("delete device %d: %+v", d.Index, got)
		}
	}
	if diff := cmp.Diff(kit.Iproute2(t, "link"), unprivileged("show")); diff != "" {
		t.Errorf("show needs no privilege:\n%s", diff)
	}
}

// TestLinkWithoutModule hides the kernel's modules, so that its own request for
// the driver fails.
func TestLinkWithoutModule(t *testing.T) {
	kit.Dummy(t, "mod0", "10.1.1.1/24")
	kit.NoFabric(t)
	for _, module := range []string{"siw", "rdma_rxe"} {
		kit.Unload(t, module)
	}
	hideModules(t)
	for typ, module := range map[string]string{
		"siw": "modprobe siw. Some kernels, Debian's among them, are built without it (CONFIG_RDMA_SIW)",
		"rxe": "modprobe rdma_rxe. Cloud kernels are often built without it (CONFIG_RDMA_RXE)",
	} {
		want := fmt.Sprintf("rdmalink: add link x type %s netdev mod0: invalid argument: the kernel has no link type %q and found no module rdma-link-%s for it, or the driver does not support mod0. "+
			"Try: %s\n", typ, typ, typ, module)
		if diff := cmp.Diff(kit.Output{Err: want, Code: 1}, kit.Rdmalink(t, "add x type "+typ+" netdev mod0")); diff != "" {
			t.Error(diff)
		}
	}
}

// TestLinkInChroot checks that rdmalink needs no /sys, /proc, /dev or /etc.
func TestLinkInChroot(t *testing.T) {
	kit.Only612(t)
	kit.Dummy(t, "jail0", "10.1.1.1/24")
	root := t.TempDir()
	binary, err := os.ReadFile(kit.RdmalinkPath(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "rdmalink"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, typ := range kit.LinkTypes() {
		for _, step := range []struct{ line, want string }{
			{"add gvjail type " + typ + " netdev jail0", ""},
			{"show gvjail", "link gvjail/1 state ACTIVE physical_state LINK_UP netdev jail0 \n"},
			{"del gvjail", ""},
		} {
			cmd := exec.Command("/rdmalink", strings.Fields(step.line)...)
			cmd.Dir, cmd.Env = "/", []string{}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
			if diff := cmp.Diff(kit.Output{Out: step.want}, kit.RunCommand(t, cmd)); diff != "" {
				t.Errorf("%s:\n%s", step.line, diff)
			}
		}
	}
}

// TestNetlinkAsSysfs compares netlink's answers with the kernel's files.
func TestNetlinkAsSysfs(t *testing.T) {
	kit.NoFabric(t) // whose devices would be counted
	for i, typ := range kit.LinkTypes() {
		kit.Dummy(t, typ+"netdev", fmt.Sprintf("10.1.%d.1/24", i+1))
		kit.Link(t, typ+"sys", typ, typ+"netdev")
	}
	var c netlinkrdma.Client
	devices, err := c.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(devices) != len(kit.LinkTypes()) {
		t.Errorf("%d devices, want those of %v", len(devices), kit.LinkTypes())
	}
	for _, d := range devices {
		sysfs := "/sys/class/infiniband/" + d.Name + "/"
		kit.Same(t, sysfs+"node_guid", d.NodeGUID.String())
		kit.Same(t, sysfs+"sys_image_guid", d.SysImageGUID.String())
		u, err := c.UverbsCharDev(d.Index)
		if err != nil {
			t.Fatal(err)
		}
		sameCharDev(t, "/sys/class/infiniband_verbs/"+u.Name+"/", u)
		kit.Same(t, "/sys/class/infiniband_verbs/"+u.Name+"/ibdev", d.Name)
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

func sameCharDev(t *testing.T, sysfs string, d netlinkrdma.CharDev) {
	t.Helper()
	kit.Same(t, sysfs+"dev", fmt.Sprintf("%d:%d", d.Major, d.Minor))
	kit.Same(t, sysfs+"abi_version", strconv.FormatUint(d.ABI, 10))
}
