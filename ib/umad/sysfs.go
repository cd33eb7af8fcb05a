package umad

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/ib/mad"
	"github.com/goverbs/goverbs/verbs"
)

// host holds the directories in which the kernel shows devices.
type host struct {
	sys string // /sys
	dev string // /dev/infiniband
}

var thisHost = host{"/sys", "/dev/infiniband"}

// node is a port that carries MADs, with the names of its device nodes.
type node struct {
	device string
	port   uint8
	umad   string // umad0
	issm   string // issm0, or ""
}

// nodes returns the ports that carry MADs, sorted by device and port.
func (h host) nodes() ([]node, error) {
	dir := filepath.Join(h.sys, "class/infiniband_mad")
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &verbs.Error{Op: "list ports", Err: errNoPorts, Hint: "load the kernel module ib_umad (modprobe ib_umad)"}
		}
		return nil, &verbs.Error{Op: "list ports", Err: err}
	}
	type key struct {
		device string
		port   uint8
	}
	issm := make(map[key]string)
	var all []node
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, "umad") && !strings.HasPrefix(name, "issm") {
			continue
		}
		// A device may be removed at any time.
		port, err := strconv.ParseUint(h.read("class/infiniband_mad", name, "port"), 10, 8)
		device := h.read("class/infiniband_mad", name, "ibdev")
		if err != nil || device == "" || strings.ContainsRune(device, '/') {
			continue
		}
		if strings.HasPrefix(name, "issm") {
			issm[key{device, uint8(port)}] = name
			continue
		}
		all = append(all, node{device: device, port: uint8(port), umad: name})
	}
	for i := range all {
		all[i].issm = issm[key{all[i].device, all[i].port}]
	}
	slices.SortFunc(all, func(a, b node) int {
		if c := strings.Compare(a.device, b.device); c != 0 {
			return c
		}
		return int(a.port) - int(b.port)
	})
	return all, nil
}

// read returns the content of a file of sysfs without surrounding white space, or "".
func (h host) read(elem ...string) string {
	b, err := os.ReadFile(filepath.Join(append([]string{h.sys}, elem...)...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// attr reads the state of a port. If a file is missing or malformed, its field is zero.
func (h host) attr(device string, port uint8) (mad.PortAttr, error) {
	dir := path.Join("class/infiniband", device)
	ports, err := os.ReadDir(filepath.Join(h.sys, dir, "ports"))
	if err != nil {
		return mad.PortAttr{}, failed("query", device, port, fmt.Errorf("%w: %w", verbs.ErrNoDevice, err))
	}
	here := path.Join(dir, "ports", strconv.Itoa(int(port)))
	number := func(s string, bits int) uint64 {
		s, _, _ = strings.Cut(s, ":") // 4: ACTIVE
		n, _ := strconv.ParseUint(s, 0, bits)
		return n
	}
	a := mad.PortAttr{
		Device: device, Port: port, NumPorts: uint8(min(len(ports), 255)),
		DeviceType: h.read(dir, "hca_type"), Firmware: h.read(dir, "fw_ver"), Hardware: h.read(dir, "hw_rev"),
		NodeType: mad.NodeType(number(h.read(dir, "node_type"), 8)), NodeGUID: guid(h.read(dir, "node_guid")), SystemGUID: guid(h.read(dir, "sys_image_guid")),
		LinkLayer: h.read(here, "link_layer"), State: verbs.PortState(number(h.read(here, "state"), 8)), PhysState: verbs.PhysState(number(h.read(here, "phys_state"), 8)),
		RateText: h.read(here, "rate"), LID: uint16(number(h.read(here, "lid"), 16)), LMC: uint8(number(h.read(here, "lid_mask_count"), 8)),
		SMLID: uint16(number(h.read(here, "sm_lid"), 16)), SMSL: uint8(number(h.read(here, "sm_sl"), 8)), CapMask: uint32(number(h.read(here, "cap_mask"), 32)),
	}
	if f := strings.Fields(a.RateText); len(f) > 0 {
		a.Rate, _ = strconv.ParseFloat(f[0], 64)
	}
	for i := range h.entries(here, "gids") {
		g, err := gid(h.read(here, "gids", strconv.Itoa(i)))
		if err != nil || g == (verbs.GID{}) {
			continue
		}
		for len(a.GIDs) <= i {
			a.GIDs = append(a.GIDs, verbs.GID{})
		}
		a.GIDs[i] = g
	}
	for i := range h.entries(here, "pkeys") {
		a.PKeys = append(a.PKeys, uint16(number(h.read(here, "pkeys", strconv.Itoa(i)), 16)))
	}
	if len(a.GIDs) > 0 {
		g := a.GIDs[0]
		for _, b := range g[8:] {
			a.PortGUID = a.PortGUID<<8 | verbs.GUID(b)
		}
	}
	return a, nil
}

// entries returns the number of entries of a table, which is at most 65536.
func (h host) entries(elem ...string) int {
	d, err := os.ReadDir(filepath.Join(append([]string{h.sys}, elem...)...))
	if err != nil {
		return 0
	}
	return len(d)
}

// guid parses a GUID in the format of sysfs, 0c76:80ff:febf:e77b.
func guid(s string) verbs.GUID {
	n, _ := strconv.ParseUint(strings.ReplaceAll(s, ":", ""), 16, 64)
	return verbs.GUID(n)
}

// gid parses a GID in the format of sysfs, which omits no zeros.
func gid(s string) (g verbs.GID, err error) {
	s = strings.ReplaceAll(s, ":", "")
	if len(s) != 32 {
		return g, fmt.Errorf("invalid GID %q", s)
	}
	for i := range g {
		n, err := strconv.ParseUint(s[2*i:2*i+2], 16, 8)
		if err != nil {
			return g, err
		}
		g[i] = byte(n)
	}
	return g, nil
}
