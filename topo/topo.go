// Package topo determines which RDMA devices, GPUs and NUMA nodes of a host are near each other. It is for programs
// that choose a NIC for memory of a GPU, such as schedulers, device plugins and transfer engines.
//
// Experimental: may change in any release; see docs/stability.md.
//
//	package main
//
//	import (
//		"fmt"
//		"log"
//		"os"
//
//		"github.com/goverbs/goverbs/topo"
//	)
//
//	func main() {
//		t, err := topo.Read(os.DirFS("/sys"))
//		if err != nil {
//			log.Fatal(err)
//		}
//		for _, nic := range t.Devices {
//			for _, gpu := range t.Nearest(nic, topo.GPU) {
//				if len(nic.RDMA) > 0 {
//					fmt.Println(nic.RDMA, "of node", nic.NUMANode, "is near GPU", gpu.Address, topo.Between(nic, gpu))
//				}
//			}
//		}
//	}
//
// [Topology.DirectNICs] has the contents of the JSON of rdma-core's rdma_topo, which knows the platforms whose
// ConnectX NICs and GPUs share a path: those with Data Direct functions, those with a switch in the NIC, and those
// with both behind the root ports of a NUMA node. [Topology.NICs] has the same for the NICs of any host.
//
// Everything comes from sysfs, which only root may read in whole: see [Topology.DirectNICs]. A tree that was copied
// from another host will do. An invalid tree, with loops or junk, yields an error or wrong results, and does no other
// harm.
package topo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// Kind is what a PCI function does.
type Kind uint8

const (
	// Other stands for functions that are none of the others.
	Other Kind = iota
	// Bridge is a root port, or a port of a switch.
	Bridge
	// NIC is a function with RDMA devices, or one of a ConnectX or BlueField that has none now.
	NIC
	// DataDirect is the function over which a ConnectX accesses the memory of a GPU that is near it. The NIC itself is
	// elsewhere: see [Device.DataDirect].
	DataDirect
	// GPU is a graphics processor or another accelerator. Graphics of a board's management controller are Other.
	GPU
	// NVMe is a controller of solid-state drives.
	NVMe
)

func (k Kind) String() string {
	names := [...]string{"other", "bridge", "NIC", "Data Direct", "GPU", "NVMe"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Device is a PCI function.
type Device struct {
	Address  string // "0000:3b:00.0"
	Kind     Kind
	NUMANode int       // -1 if it is not known
	Parent   *Device   // the bridge above it; nil below a host's own bus
	Children []*Device // in the order of their addresses

	RDMA []string // the names of its RDMA devices, and of those of its subfunctions
	Net  []string // the names of its network devices
	DRM  []string // the names of its graphics devices, such as "card0"
	NVMe []string // the names of its NVMe controllers

	// A ConnectX has these, if this process may read its vital product data.
	ProductName  string
	SerialNumber string
	DataDirect   []*Device // its Data Direct functions

	ATS bool // a ConnectX that translates addresses itself

	model    string
	hasNode  bool // sysfs has a NUMA node, which may be -1
	v3       string
	aboveBDF string
	dirs     map[string][]string
	denied   error
}

// Topology is the set of PCI functions of a host.
type Topology struct {
	Devices []*Device // in the order of their addresses
}

const (
	maxFunctions = 1 << 13 // NICs looks at each pair of a NIC and a GPU
	maxNames     = 1 << 12 // in a directory
	maxDepth     = 256     // of bridges, because there are 256 buses
	maxText      = 1 << 12
	maxVPD       = 1 << 15
	configSize   = 1 << 12
)

const pciDir = "bus/pci/devices"

var addressPattern = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$`)

// Read reads the PCI functions of a host from its sysfs, as os.DirFS("/sys"), or from a copy of it. The error matches
// fs.ErrNotExist if the host has no PCI.
func Read(sys fs.FS) (*Topology, error) {
	t := &Topology{}
	names, err := list(sys, pciDir, maxFunctions)
	if err != nil {
		return nil, failed("read", "PCI topology", err)
	}
	byAddress := make(map[string]*Device)
	for _, name := range names {
		if addressPattern.MatchString(name) {
			byAddress[name] = readDevice(sys, name)
			t.Devices = append(t.Devices, byAddress[name])
		}
	}
	slices.SortFunc(t.Devices, byAddressOrder)
	for _, d := range t.Devices {
		d.Parent = byAddress[d.aboveBDF]
	}
	for _, d := range t.Devices {
		if depth(d) > maxDepth { // a loop
			d.Parent = nil
		}
		if d.Parent != nil {
			d.Parent.Children = append(d.Parent.Children, d)
		}
	}
	if err := addSubfunctions(sys, byAddress); err != nil {
		return nil, failed("read", "RDMA devices", err)
	}
	t.addDataDirect()
	return t, nil
}

func failed(op, object string, err error) error {
	return &verbs.Error{Op: op, Object: object, Err: err}
}

// byAddressOrder compares as rdma_topo does: the parts of the address, as texts.
func byAddressOrder(a, b *Device) int {
	return slices.Compare(strings.FieldsFunc(a.Address, isSeparator), strings.FieldsFunc(b.Address, isSeparator))
}

func isSeparator(r rune) bool { return r == ':' || r == '.' }

func depth(d *Device) (n int) {
	for p := d.Parent; p != nil && n <= maxDepth; p = p.Parent {
		n++
	}
	return n
}

func readDevice(sys fs.FS, address string) *Device {
	dir := path.Join(pciDir, address)
	d := &Device{Address: address, NUMANode: -1, dirs: make(map[string][]string)}
	if to, err := fs.ReadLink(sys, dir); err == nil {
		d.aboveBDF = path.Base(path.Dir(to))
	}
	modalias := text(sys, path.Join(dir, "modalias"))
	d.model = model(modalias, addressPattern.MatchString(d.aboveBDF))
	d.Kind = kind(modalias, d.model)
	if n, err := strconv.ParseInt(text(sys, path.Join(dir, "numa_node")), 10, 32); err == nil {
		d.NUMANode, d.hasNode = max(int(n), -1), true
	}
	for _, s := range [...]string{"drm", "infiniband", "net", "nvme"} {
		if names, err := list(sys, path.Join(dir, s), maxNames); err == nil {
			d.dirs[s] = names
		}
	}
	d.RDMA, d.Net, d.DRM, d.NVMe = slices.Clone(d.dirs["infiniband"]), d.dirs["net"], d.dirs["drm"], d.dirs["nvme"]
	if d.model == modelNIC || d.model == modelDMA {
		config, _ := read(sys, path.Join(dir, "config"), configSize)
		d.ATS = d.model == modelNIC && hasATS(config)
		vpd, err := read(sys, path.Join(dir, "vpd"), maxVPD)
		if errors.Is(err, fs.ErrPermission) {
			d.denied = err
		}
		d.v3, d.ProductName, d.SerialNumber = parseVPD(vpd)
	}
	return d
}

// addSubfunctions adds the RDMA devices of subfunctions, whose directories are deeper.
func addSubfunctions(sys fs.FS, byAddress map[string]*Device) error {
	const dir = "class/infiniband"
	names, err := list(sys, dir, maxFunctions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		to, _ := fs.ReadLink(sys, path.Join(dir, name))
		for to = path.Dir(to); len(to) > 1; to = path.Dir(to) {
			if d := byAddress[path.Base(to)]; d != nil {
				if !slices.Contains(d.RDMA, name) {
					d.RDMA = append(d.RDMA, name)
				}
				break
			}
		}
	}
	return err
}

// addDataDirect makes functions with RDMA devices NICs, and finds the Data Direct functions of NICs: those that name
// the same V3 in their vital product data.
func (t *Topology) addDataDirect() {
	of := make(map[string][]*Device)
	for _, d := range t.Devices {
		if len(d.RDMA) > 0 {
			d.Kind = NIC
		}
		if d.Kind == DataDirect && d.v3 != "" {
			of[d.v3] = append(of[d.v3], d)
		}
	}
	for _, d := range t.Devices {
		if d.Kind == NIC && d.v3 != "" {
			d.DataDirect = of[d.v3]
		}
	}
}

// list returns the names in a directory, sorted. It fails if there are more than the limit.
func list(sys fs.FS, dir string, limit int) (names []string, err error) {
	f, err := sys.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: dir, Err: syscall.ENOTDIR}
	}
	entries, err := d.ReadDir(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > limit {
		return nil, fmt.Errorf("%s has more than %d entries: %w", dir, limit, syscall.E2BIG)
	}
	names = make([]string, 0, len(entries)) // not nil, for JSON
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// read returns a file's bytes up to a limit. It opens regular files only, because others may block.
func read(sys fs.FS, name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(sys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	f, err := sys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// text returns the text of a file, which is empty if there is none.
func text(sys fs.FS, name string) string {
	b, _ := read(sys, name, maxText)
	return strings.TrimSpace(string(b))
}

// Device returns the PCI function with an address, or nil.
func (t *Topology) Device(address string) *Device {
	for _, d := range t.Devices {
		if d.Address == address {
			return d
		}
	}
	return nil
}

// RDMA returns the PCI function of an RDMA device, or nil. Devices in software have none.
func (t *Topology) RDMA(name string) *Device {
	for _, d := range t.Devices {
		if slices.Contains(d.RDMA, name) {
			return d
		}
	}
	return nil
}

// Root returns the root port above the device, or the device itself if there is no bridge above it.
func (d *Device) Root() *Device {
	for d.Parent != nil {
		d = d.Parent
	}
	return d
}

// Switch returns the upstream port of the switch that the device is connected to, or nil.
func (d *Device) Switch() *Device {
	if d.Parent != nil && d.Parent.Parent != nil && d.Parent.Parent.Parent != nil {
		return d.Parent.Parent
	}
	return nil
}

// Distance is how far two devices are from each other. Less is nearer.
type Distance uint8

const (
	// SameSwitch means that one switch at most is between them.
	SameSwitch Distance = iota
	// SameRoot means that a packet from one to the other need not leave their root port.
	SameRoot
	// SameNode means that they have different root ports, and the same NUMA node.
	SameNode
	// Unknown means that they have different root ports, and one has no known NUMA node.
	Unknown
	// OtherNode means that they have different NUMA nodes.
	OtherNode
)

func (d Distance) String() string {
	names := [...]string{"same switch", "same root port", "same NUMA node", "unknown distance", "other NUMA node"}
	if int(d) < len(names) {
		return names[d]
	}
	return fmt.Sprintf("Distance(%d)", uint8(d))
}

// Between returns the distance between two functions of a Topology. A NIC is also where its Data Direct functions are.
func Between(a, b *Device) Distance {
	best := between(a, b)
	for _, d := range a.DataDirect {
		best = min(best, between(d, b))
	}
	for _, d := range b.DataDirect {
		best = min(best, between(a, d))
	}
	return best
}

func between(a, b *Device) Distance {
	x, y, m, n := a, b, depth(a), depth(b)
	fromA, fromB := m, n
	for x != y { // the deeper one goes up, until they meet or both have left their roots
		if m >= n {
			x, m = x.Parent, m-1
		} else {
			y, n = y.Parent, n-1
		}
	}
	switch {
	case x == nil:
		return a.FromNode(b.NUMANode)
	case fromA-m <= 2 && fromB-n <= 2: // the port of the one, and that of the other, are of one switch
		return SameSwitch
	}
	return SameRoot
}

// FromNode returns the distance between a device and the memory of a NUMA node, where a negative number stands for an
// unknown node: SameNode, Unknown or OtherNode.
func (d *Device) FromNode(node int) Distance {
	switch {
	case d.NUMANode < 0 || node < 0:
		return Unknown
	case d.NUMANode == node:
		return SameNode
	}
	return OtherNode
}

// Nearest returns the devices of a kind that are nearest to a device, in the order of their addresses. There is none
// if all are of other NUMA nodes, or at an unknown distance.
func (t *Topology) Nearest(to *Device, kind Kind) (all []*Device) {
	best := Unknown
	for _, d := range t.Devices {
		if d == to || d.Kind != kind {
			continue
		}
		switch c := cmp.Compare(Between(to, d), best); {
		case c < 0:
			best, all = Between(to, d), []*Device{d}
		case c == 0 && best < Unknown:
			all = append(all, d)
		}
	}
	return all
}
