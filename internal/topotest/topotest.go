// Package topotest builds copies of sysfs from short descriptions of hosts, for tests.
//
// A line of a description is a host bridge ("pci0000:00") or a PCI function, indented more than its parent: its
// address, vendor and device, class, and then any of numa=NODE, drm=NAMES, infiniband=NAMES, net=NAMES, nvme=NAMES,
// name="PRODUCT", sn=SERIAL, v3=ID and ats.
package topotest

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// Read returns the tree that a file describes. It stands for /sys.
func Read(t testing.TB, file string) fstest.MapFS {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(t, string(b))
}

var word = regexp.MustCompile(`([a-z0-9]+)=("[^"]*"|\S+)`)

// Parse returns the tree that a text describes.
func Parse(t testing.TB, text string) fstest.MapFS {
	t.Helper()
	tree := make(fstest.MapFS)
	var above []string // the path to the line before
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		level := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		above = append(above[:level], fields[0])
		if level == 0 {
			continue
		}
		var vendor, device, class uint32
		if _, err := fmt.Sscanf(fields[1]+" "+fields[2], "%x:%x %x", &vendor, &device, &class); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		has := make(map[string]string)
		for _, m := range word.FindAllStringSubmatch(line, -1) {
			has[m[1]] = strings.Trim(m[2], `"`)
		}
		dir := "devices/" + strings.Join(above, "/")
		put := func(name string, b []byte) { tree[path.Join(dir, name)] = &fstest.MapFile{Data: b, Mode: 0o444} }
		put("modalias", fmt.Appendf(nil, "pci:v%08Xd%08Xsv00000000sd00000000bc%02Xsc%02Xi%02X\n", vendor, device, class>>16, class>>8&255, class&255))
		put("config", config(strings.HasSuffix(strings.TrimSpace(line), " ats")))
		if node, ok := has["numa"]; ok {
			put("numa_node", []byte(node+"\n"))
		}
		for _, s := range []string{"drm", "infiniband", "net", "nvme"} {
			for name := range strings.SplitSeq(has[s], ",") {
				if name == "" {
					continue
				}
				put(path.Join(s, name, "uevent"), nil)
				if s == "infiniband" {
					Link(tree, "../../"+path.Join(dir, s, name), path.Join("class", s, name))
				}
			}
		}
		if has["name"]+has["sn"]+has["v3"] != "" {
			put("vpd", VPD(has["name"], has["sn"], has["v3"]))
		}
		Link(tree, "../../../"+dir, path.Join("bus/pci/devices", fields[0]))
	}
	return tree
}

// Link adds a symbolic link to a tree.
func Link(tree fstest.MapFS, to, name string) {
	tree[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
}

// config returns a configuration space with the capability of Access Control Services and, if wanted, that of Address
// Translation Services.
func config(ats bool) []byte {
	b := make([]byte, 4096)
	next := uint32(0)
	if ats {
		next = 0x120
		binary.LittleEndian.PutUint32(b[0x120:], 0x0f|1<<16)
	}
	binary.LittleEndian.PutUint32(b[0x100:], 0x0d|1<<16|next<<20)
	return b
}

// VPD returns vital product data with a name, a serial number and a V3.
func VPD(name, sn, v3 string) []byte {
	var fields []byte
	for _, f := range [][2]string{{"SN", sn}, {"V3", v3}} {
		if f[1] != "" {
			fields = append(append(append(fields, f[0]...), byte(len(f[1]))), f[1]...)
		}
	}
	b := binary.LittleEndian.AppendUint16([]byte{0x82}, uint16(len(name)))
	b = append(b, name...)
	b = binary.LittleEndian.AppendUint16(append(b, 0x90), uint16(len(fields)))
	return append(append(b, fields...), 0x78)
}
