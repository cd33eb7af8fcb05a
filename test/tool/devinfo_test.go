//go:build vm

package tool

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/test/kit"
	"github.com/goverbs/goverbs/uverbs"
)

// tableOf is what rdmalink devinfo prints of a device as JSON.
func tableOf(t *testing.T, cmd *exec.Cmd) map[string]any {
	t.Helper()
	got := kit.RunCommand(t, cmd)
	var all []map[string]any
	if err := json.Unmarshal([]byte(got.Out), &all); err != nil || len(all) != 1 || got.Code != 0 || got.Err != "" {
		t.Fatalf("%v: %+v", err, got)
	}
	return all[0]
}

func onlyPort(t *testing.T, table map[string]any) map[string]any {
	t.Helper()
	ports, _ := table["ports"].([]any)
	if len(ports) != 1 {
		t.Fatalf("ports: %v", table["ports"])
	}
	return ports[0].(map[string]any)
}

// zeroElsewhere lists fields that only ibv_devinfo prints: fields of objects that the
// kernel no longer has. They are 0.
var zeroElsewhere = strings.Fields(`max_ee_rd_atom max_ee_init_rd_atom max_ee max_rdd max_raw_ipv6_qp max_raw_ethy_qp max_fmr`)

// TestDevinfoAsIbvDevinfo compares every field that ibv_devinfo -v prints.
func TestDevinfoAsIbvDevinfo(t *testing.T) {
	for i, typ := range kit.LinkTypes() {
		t.Run(typ, func(t *testing.T) {
			netdev, name := "info"+typ, "gvinfo"+typ
			kit.Dummy(t, netdev, fmt.Sprintf("10.89.%d.1/24", i), fmt.Sprintf("fd89:%d::1/64", i))
			kit.Link(t, name, typ, netdev)
			gidsStand(t, name, typ)
			ours := tableOf(t, exec.Command(kit.RdmalinkPath(t), "-j", "devinfo", "-v", name))
			if ours["missing"] != nil || ours["provider"] != true || ours["driver"] != typ {
				t.Errorf("%v", ours)
			}
			port := onlyPort(t, ours)
			gids := 0
			for field, theirs := range kit.Devinfo(t, name) {
				if strings.HasPrefix(field, "GID[") {
					gids++
					sameGID(t, port, field, theirs)
					continue
				}
				sameField(t, ours, port, field, theirs)
			}
			if n := len(port["gids"].([]any)); typ == "rxe" && n != gids || n == 0 {
				t.Errorf("%d GIDs, ibv_devinfo has %d", n, gids)
			}
			sameAsSystem(t, name, netdev, ours, port)
		})
	}
}

// gidsStand waits for the kernel to make all GIDs of a new link: on rxe one for each
// address, the link-local one included.
func gidsStand(t *testing.T, name, typ string) {
	t.Helper()
	want := map[string]int{"siw": 1, "rxe": 1}[typ]
	if typ == "rxe" {
		netdev := kit.Must(new(netlinkrdma.Client).Port(kit.Must(new(netlinkrdma.Client).DeviceByName(name))(t).Index, 1))(t).NetdevName
		all := kit.Must(kit.Must(net.InterfaceByName(netdev))(t).Addrs())(t)
		if want = len(all); !slices.ContainsFunc(all, func(a net.Addr) bool { return strings.HasPrefix(a.String(), "fe80:") }) {
			want++ // which rxe has in any case
		}
	}
	kit.Until(t, "with all GIDs", func() bool {
		d := kit.Must(uverbs.Open(name))(t)
		defer d.Close()
		return len(kit.Must(d.GIDTable())(t)) == want
	})
}

// sameField finds ibv_devinfo's field in our table, or fails.
func sameField(t *testing.T, device, port map[string]any, field, theirs string) {
	t.Helper()
	text, _, _ := strings.Cut(theirs, " (") // without the code
	ours := func(name string) string {
		if v, ok := device[name]; ok {
			return fmt.Sprint(v)
		}
		return fmt.Sprint(port[name])
	}
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			f, _ := strconv.ParseFloat(s, 64) // as JSON's numbers are read
			n = uint64(f)
		}
		return n
	}
	same := false
	switch field {
	case "hca_id":
		same = ours("ifname") == text
	case "fw_ver": // rdma-core makes a version of 0
		same = ours(field) == text || ours(field) == "<nil>" && text == "0.0.0"
	case "state":
		same = "PORT_"+ours(field) == text
	case "phys_state":
		same = ours("physical_state") == text
	case "active_mtu", "max_mtu", "max_msg_sz", "max_tso":
		same = number(ours(field+"_bytes")) == number(text)
	case "qp_rate_limit_min", "qp_rate_limit_max":
		same = number(ours(field+"_kbps")) == number(strings.TrimSuffix(text, "kbps"))
	case "active_speed":
		gbps, _ := strconv.ParseFloat(strings.TrimSuffix(text, " Gbps"), 64)
		lanes := number(strings.TrimSuffix(ours("active_width"), "X"))
		same = float64(number(ours("rate_mbps"))) == gbps*1000*float64(lanes)
	case "device_cap_flags":
		same = uint64(uint32(number(ours(field)))) == number(text)
	case "device_cap_flags_ex":
		same = number(ours("device_cap_flags")) == number(text)
	case "port", "transport", "link_layer", "active_width", "node_guid", "sys_image_guid", "atomic_cap":
		same = ours(field) == text
	default:
		for _, name := range zeroElsewhere {
			if field == name {
				same = number(text) == 0
			}
		}
		if text == "" || field == "Unknown flags" { // a list's name, or a field that it is too old for
			same = true
		}
		if v := ours(field); v != "<nil>" {
			same = number(v) == number(text)
		}
	}
	if !same {
		t.Errorf("%s is %s, ibv_devinfo says %s", field, ours(field), theirs)
	}
}

// sameGID compares "GID[  1]: ::ffff:10.89.0.1, RoCE v2".
func sameGID(t *testing.T, port map[string]any, field, theirs string) {
	t.Helper()
	addr, typ, _ := strings.Cut(theirs, ", ")
	index, err := strconv.ParseFloat(strings.Trim(field, "GID[ ]"), 64)
	want, err2 := netip.ParseAddr(addr)
	if err != nil || err2 != nil {
		t.Fatal(field, theirs)
	}
	for _, g := range port["gids"].([]any) {
		gid := g.(map[string]any)
		if got, err := netip.ParseAddr(gid["gid"].(string)); err == nil && gid["index"] == index && gid["type"] == typ && got == want {
			return
		}
	}
	t.Errorf("ibv_devinfo says %s %s, we have %v", field, theirs, port["gids"])
}

// sameAsSystem compares with sources other than ibv_devinfo.
func sameAsSystem(t *testing.T, name, netdev string, device, port map[string]any) {
	t.Helper()
	var c netlinkrdma.Client
	d := kit.Must(c.DeviceByName(name))(t)
	u := kit.Must(c.UverbsCharDev(d.Index))(t)
	path := "/dev/infiniband/" + u.Name
	nodes, _ := device["char_devices"].([]any)
	// rxe has an umad node as well, and with Linux 6.1 an issm node.
	var got []any
	for _, n := range nodes {
		if n, ok := n.(map[string]any); ok && n["type"] == "uverbs" {
			got = append(got, n)
		} else if !ok || n["dev"] != kit.DeviceNumber(t, fmt.Sprint(n["path"])) {
			t.Errorf("char device: %v", n)
		}
	}
	want := []any{map[string]any{"name": u.Name, "type": "uverbs", "path": path, "dev": kit.DeviceNumber(t, path)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("char devices: %s", diff)
	}
	sys := "/sys/class/infiniband/" + name + "/"
	kit.Same(t, sys+"node_desc", fmt.Sprint(device["node_desc"]))
	for _, g := range port["gids"].([]any) {
		gid := g.(map[string]any)
		if !kit.OnKernel("6.1") || device["driver"] != "siw" { // 6.1 reports no interface for iWARP
			kit.Same(t, fmt.Sprintf("%sports/1/gid_attrs/ndevs/%v", sys, gid["index"]), gid["netdev"].(string))
		}
	}
	for _, p := range port["pkeys"].([]any) {
		pkey := p.(map[string]any)
		kit.Same(t, fmt.Sprintf("%sports/1/pkeys/%v", sys, pkey["index"]), pkey["pkey"].(string))
	}
	if port["netdev"] != netdev || (device["driver"] == "rxe") != (len(port["pkeys"].([]any)) == 1) {
		t.Errorf("%v", port)
	}
}

// TestDevinfoDenied checks that without permission to open the device, devinfo prints sysfs's fields, which are the
// same, and why the others are missing.
func TestDevinfoDenied(t *testing.T) {
	kit.Only612(t)
	everybodys := everybodysRdmalink(t)
	for i, typ := range kit.LinkTypes() {
		kit.Dummy(t, "deny"+typ, fmt.Sprintf("10.89.%d.1/24", 10+i))
		d := kit.Link(t, "gvdeny"+typ, typ, "deny"+typ)
		gidsStand(t, d.Name, typ)
		path := "/dev/infiniband/" + kit.Must(new(netlinkrdma.Client).UverbsCharDev(d.Index))(t).Name
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		all := tableOf(t, exec.Command(everybodys, "-j", "devinfo", d.Name))
		some := tableOf(t, kit.Nobody(exec.Command(everybodys, "-j", "devinfo", d.Name)))
		missing := []any{"limits, capabilities, vendor, MTU: open device on " + d.Name + ": open " + path +
			": permission denied: allow reading and writing it (`chmod 666 " + path + "`)"}
		if diff := cmp.Diff(missing, some["missing"]); diff != "" {
			t.Error(diff)
		}
		delete(some, "missing")
		for _, name := range []string{"vendor_id", "vendor_part_id", "hw_ver"} {
			delete(all, name)
		}
		for _, name := range []string{"active_mtu_bytes", "max_mtu_bytes"} {
			delete(onlyPort(t, all), name)
		}
		if typ == "siw" { // only a device that is open tells the netdev of a GID made of a MAC address
			delete(onlyPort(t, all)["gids"].([]any)[0].(map[string]any), "netdev")
		}
		if diff := cmp.Diff(all, some); diff != "" {
			t.Errorf("%s (-open +denied):\n%s", typ, diff)
		}
	}
}

// everybodysRdmalink is a copy where nobody may run it: the checkout may lie in a
// home that nobody may look into.
func everybodysRdmalink(t *testing.T) string {
	t.Helper()
	kit.Sh(t, "install -D -m 755 "+kit.RdmalinkPath(t)+" /tmp/everybodys/rdmalink")
	t.Cleanup(func() { kit.Sh(t, "rm -r /tmp/everybodys") })
	return "/tmp/everybodys/rdmalink"
}
