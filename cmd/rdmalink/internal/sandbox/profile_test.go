package sandbox

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
)

// listed is a NIC of a profile's file: its ancestors from the root, and what the file says of it.
type listed struct {
	above        []string
	vendor, name string
	speed        string
}

// list reads a file of NCCL's with a decoder of its own.
func list(t *testing.T, text []byte) (nics []listed) {
	t.Helper()
	var above []string
	var vendor string
	numa := ""
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			return nics
		}
		switch e := token.(type) {
		case xml.StartElement:
			attr := make(map[string]string)
			for _, a := range e.Attr {
				attr[a.Name.Local] = a.Value
			}
			switch e.Name.Local {
			case "cpu":
				numa = attr["numaid"]
			case "pci":
				above = append(above, attr["busid"])
				if vendor = attr["vendor"]; vendor == "" {
					vendor = "0x15b3"
				}
			case "net":
				nics = append(nics, listed{append([]string{numa}, above...), vendor, attr["name"], attr["speed"]})
			}
		case xml.EndElement:
			if e.Name.Local == "pci" {
				above = above[:len(above)-1]
			}
		}
	}
}

// parents returns the ancestors of a PCI device as NCCL finds them in sysfs: it goes up by two directories at a time,
// from the port of a switch to the switch, until one is no PCI device.
func parents(dir string) (above []string) {
	for {
		above = append(above, path.Base(dir))
		up := path.Dir(dir)
		if _, err := parseBusID(path.Base(up)); err != nil {
			break
		}
		if dir = path.Dir(up); !strings.Contains(path.Base(dir), ".") {
			break
		}
	}
	slices.Reverse(above)
	return above
}

// TestProfiles compares the paths in sysfs with the files that they are made of.
func TestProfiles(t *testing.T) {
	devices := map[string]int{"aws-p4d": 4, "azure-ndv4": 8, "azure-ndv5": 8, "dgx-h100": 8, "hygon-8dcu": 6, "mi100-hdr": 1}
	for _, name := range profileNames() {
		p, err := openProfile(name)
		if err != nil {
			t.Fatal(name, err)
		}
		text, err := fs.ReadFile(profiles, "profiles/"+name+".xml")
		if err != nil {
			t.Fatal(err)
		}
		want := list(t, text)
		if len(p.devices) != len(want) || len(want) != devices[name] {
			t.Errorf("%s: %d devices, want %d and %d", name, len(p.devices), len(want), devices[name])
			continue
		}
		files := make(map[string]map[string]string)
		for _, n := range p.pci {
			if files[n.path] != nil {
				t.Errorf("%s: %s is there twice", name, n.path)
			}
			files[n.path] = n.files
		}
		for i, d := range p.devices {
			w := want[i]
			got := append([]string{files[d.path]["numa_node"]}, parents(d.path)...)
			last := len(got) - 1
			if w.name == "" {
				w.name = d.name
			}
			if got[last], w.above[last] = strings.TrimRight(got[last], "0123456789"), strings.TrimRight(w.above[last], "0123456789"); !slices.Equal(got, w.above) ||
				d.name != w.name || fmt.Sprint(d.speed) != w.speed || files[d.path]["vendor"] != w.vendor {
				t.Errorf("%s: %+v at %q, want %+v", name, d, got, w)
			}
		}
	}
}

// machineOf returns a file with PCI devices.
func machineOf(pci string) string { return `<system><cpu numaid="0">` + pci + `</cpu></system>` }

const oneNIC = `<pci busid="0000:18:00.0" class="0x020700" vendor="0x15b3" device="0x1021"/>`

func TestProfileInput(t *testing.T) {
	for text, want := range map[string]profileDevice{
		machineOf(oneNIC): {kind: "mlx5-ib", name: "mlx5_0", path: "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0", vendor: 0x15b3, device: 0x1021},
		machineOf(`<pci busid="0000:00:1B.0" class="0x020000" vendor="0x1d0f" device="0xefa1"><nic><net guid="0xa262550003a1420c" speed="100000"/></nic></pci>`): {
			kind: "efa", name: "rdmap0s27", path: "/sys/devices/pci0000:00/0000:00:1b.0", vendor: 0x1d0f, device: 0xefa1, guid: 0x0c42a1030055_62a2, speed: 100000},
		machineOf(`<pci busid="0000:17:01.0" class="0x060400"/>` + oneNIC): {kind: "mlx5-ib", name: "mlx5_0", path: "/sys/devices/pci0000:17/0000:17:02.0/0000:18:00.0", vendor: 0x15b3, device: 0x1021},
		machineOf(`<pci busid="0000:18:00.0" class="0x020000" vendor="0x1ded" device="0x107f"/>`): {kind: "erdma", name: "erdma_0",
			path: "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0", vendor: 0x1ded, device: 0x107f},
	} {
		p, err := readProfile(strings.NewReader(text))
		if err != nil || len(p.devices) != 1 || p.devices[0] != want {
			t.Errorf("%s: %+v, %v", text, p, err)
		}
	}
	nic := func(nets string) string {
		return machineOf(strings.Replace(oneNIC, "/>", "><nic>"+nets+"</nic></pci>", 1))
	}
	for text, want := range map[string]string{
		"":                                       "NCCL_TOPO_DUMP_FILE",
		"<system/>":                              "NCCL_TOPO_DUMP_FILE",
		"<topology/>":                            "NCCL_TOPO_DUMP_FILE",
		machineOf(oneNIC)[:60]:                   "NCCL_TOPO_DUMP_FILE",
		machineOf(oneNIC + oneNIC):               "is there twice",
		machineOf(`<pci busid="18:00.0"/>`):      `bus ID "18:00.0"`,
		machineOf(`<pci busid="0000:18:20.0"/>`): "bus ID",
		machineOf(`<pci busid="0000:18:00.0" class="0x020000" vendor="0x14e4"/>`):                "0000:18:00.0 (vendor 0x14e4)",
		machineOf(`<pci busid="0000:18:00.0" class="x"/>`):                                       "class",
		machineOf(`<pci busid="0000:18:00.0" vendor="0x12345"/>`):                                "vendor",
		strings.Replace(machineOf(oneNIC), `numaid="0"`, `numaid="x"`, 1):                        "NUMA",
		machineOf(strings.Repeat(`<pci busid="0000:18:00.0">`, 2) + strings.Repeat("</pci>", 2)): "is there twice",
		nic(`<net name="../x"/>`):                                          "can't be the name",
		nic(`<net name="` + "\x7f" + `"/>`):                                "can't be the name",
		nic(`<net name="a"/><net name="a"/>`):                              "two devices",
		nic(strings.Repeat(`<net/>`, 9)):                                   "more ports",
		nic(`<net speed="123"/>`):                                          "speed 123",
		nic(`<net speed="x"/>`):                                            "NCCL_TOPO_DUMP_FILE",
		nic(`<net guid="x"/>`):                                             "GUID",
		machineOf(strings.Repeat(`<pci busid="0000:00:00.0"/>`, 2)):        "is there twice",
		machineOf(oneNIC) + strings.Repeat(" ", mostProfile):               "more than 1048576 bytes",
		machineOf(nested(deepestPCI + 2)):                                  "more than 16 switches",
		machineOf(`<pci busid="0000:01:00.0">` + siblings(300) + `</pci>`): "is full",
		machineOf(many(mostProfileDevices + 1)):                            "more than 64 RDMA devices",
	} {
		if p, err := readProfile(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, %v, want %s", text, p, err, want)
		}
	}
	var usage cli.UsageError
	if _, err := openProfile("dgx-h200"); !errors.As(err, &usage) || !strings.Contains(usage.Text, "did you mean dgx-h100?") {
		t.Error(err)
	}
}

// nested returns switches within each other.
func nested(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<pci busid="0000:%02x:00.0">`, 2*i+1)
	}
	return b.String() + strings.Repeat("</pci>", n)
}

// siblings returns devices with different addresses.
func siblings(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<pci busid="%04x:80:00.0"/>`, i)
	}
	return b.String()
}

// many returns NICs.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `<pci busid="%04x:18:00.0" class="0x020000" vendor="0x15b3"/>`, i)
	}
	return b.String()
}

func FuzzProfile(f *testing.F) {
	for _, name := range profileNames() {
		text, _ := fs.ReadFile(profiles, "profiles/"+name+".xml")
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := readProfile(bytes.NewReader(text))
		if err != nil {
			return
		}
		paths := make(map[string]bool)
		for _, n := range p.pci {
			if !strings.HasPrefix(n.path, pciDomains) || path.Clean(n.path) != n.path || paths[n.path] {
				t.Error(n.path)
			}
			paths[n.path] = true
			for _, text := range n.files {
				if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' || r > '~' }) {
					t.Errorf("%q", text)
				}
			}
		}
		for _, d := range p.devices {
			if !paths[d.path] || !deviceNames.MatchString(d.name) {
				t.Errorf("%+v", d)
			}
		}
	})
}
