package topo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goverbs/goverbs/verbs"
)

// Complex is a NIC, or the NICs of a NUMA node, and the GPUs that it is to be used with. Its JSON is rdma_topo's.
type Complex struct {
	NIC        string   `json:"rdma_nic_pf_bdf,omitempty"` // the address of a NIC's first function; empty if there are Boards
	DataDirect string   `json:"rdma_dma_bdf,omitempty"`    // the address of its Data Direct function
	GPU        string   `json:"gpu_bdf,omitempty"`         // the address of a GPU; empty if there are GPUs
	GPUs       []string `json:"gpu_bdfs,omitempty"`        // the addresses of GPUs
	NVMe       string   `json:"nvme_bdf,omitempty"`        // the address of a drive that is attached to the NIC
	NICName    string   `json:"rdma_nic_vpd_name,omitempty"`
	NUMANode   *int     `json:"numa_node,omitempty"`
	ATS        *bool    `json:"rdma_nic_ats,omitempty"`
	Boards     []Board  `json:"rdma_nic_boards,omitempty"` // the NICs of a NUMA node, if they have several functions

	// Subsystems has the names of devices by the address of their PCI function and by their subsystem: "infiniband",
	// "net", "drm" or "nvme".
	Subsystems map[string]map[string][]string `json:"subsystems"`

	first *Device // of the NICs
}

// Board is a card with NICs.
type Board struct {
	SerialNumber string     `json:"board_sn"` // "UNKNOWN" if it is not
	NICs         []BoardNIC `json:"nics"`
}

// BoardNIC is a NIC of a Board.
type BoardNIC struct {
	Parent    string   `json:"parent_bdf"` // the address of the bridge above it, or "UNKNOWN"
	ATS       bool     `json:"ats"`        // of the first function
	Functions []string `json:"pf_bdfs"`
}

// DirectNICs returns what rdma_topo of rdma-core 65 prints as JSON. Lists are sorted. It knows three kinds of platforms
// with ConnectX NICs and GPUs of NVIDIA: with Data Direct functions; with GPUs behind the switch in a ConnectX; and
// with GPUs and NICs behind root ports, which belong together if they have the same NUMA node.
//
// The error matches errors.ErrUnsupported if the host is none of these, as most are not, and fs.ErrPermission if this
// process may not read the vital product data of a NIC, because it is not root.
func (t *Topology) DirectNICs() ([]Complex, error) {
	all, err := t.directNICs()
	if err != nil {
		return nil, failed("find", "direct NICs", err)
	}
	slices.SortFunc(all, func(a, b Complex) int { return byAddressOrder(a.first, b.first) })
	return all, nil
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), verbs.ErrNotSupported)
}

func (t *Topology) directNICs() (all []Complex, err error) {
	has := make(map[string]bool)
	behindRoot := false
	for _, d := range t.Devices {
		if d.denied != nil {
			return nil, fmt.Errorf("only root may read this: %w", d.denied)
		}
		has[d.model] = true
		behindRoot = behindRoot || d.model == modelGPU && d.Parent != nil && strings.HasSuffix(d.Parent.model, rootPort)
	}
	of, each := "", t.inline
	switch {
	case has[modelDMA]:
		of, each = modelDMA, t.dataDirect
	case behindRoot:
		return t.byNode()
	case has[modelSwitch] && has[modelGPU] && has[modelNIC]:
		of = modelGPU
	default:
		return nil, unsupported("this host has no ConnectX that shares a switch or a root complex with a GPU of NVIDIA")
	}
	for _, d := range t.Devices {
		if d.model == of {
			c, err := each(d)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// parent returns the device above d if it is of a model, or nil.
func parent(d *Device, model string) *Device {
	if d == nil || d.Parent == nil || d.Parent.model != model {
		return nil
	}
	return d.Parent
}

// below returns the devices below d.
func below(d *Device) (all []*Device) {
	for _, c := range d.Children {
		all = append(append(all, c), below(c)...)
	}
	return all
}

// find returns the devices of a model.
func find(in []*Device, model string) []*Device {
	return slices.DeleteFunc(slices.Clone(in), func(d *Device) bool { return d.model != model })
}

// dataDirect returns the complex of a Data Direct function. The GPU is one switch deeper.
func (t *Topology) dataDirect(dma *Device) (Complex, error) {
	refuse := func(format string, args ...any) (Complex, error) {
		return Complex{}, unsupported("the Data Direct function %s %s", dma.Address, fmt.Sprintf(format, args...))
	}
	if dma.v3 == "" {
		return refuse("has no V3 in its vital product data, which would name its NIC")
	}
	var nics []*Device
	for _, d := range t.Devices {
		if d != dma && d.v3 == dma.v3 {
			nics = append(nics, d)
		}
	}
	if len(nics) == 0 {
		return refuse("has no NIC with the same V3 in its vital product data")
	}
	port := parent(dma, modelSwitch)
	up := parent(port, modelSwitch)
	root := parent(up, modelGrace)
	if root == nil {
		return refuse("is not below a switch of a ConnectX and a root port of Grace")
	}
	gpus := find(below(root), modelGPU)
	if len(gpus) != 1 {
		return refuse("has %d GPUs below its root port, want 1", len(gpus))
	}
	gpu := gpus[0]
	port2 := parent(gpu, modelSwitch)
	up2 := parent(port2, modelSwitch)
	port1 := parent(up2, modelSwitch)
	if parent(port1, modelSwitch) != up {
		return refuse("has a GPU on another path, %s", gpu.Address)
	}
	if n := len(below(root)); n != 7 {
		return refuse("has %d functions below its root port, want 7", n)
	}
	nic := nics[0]
	c := newComplex(nic, append(nics, gpu, dma)...)
	c.DataDirect, c.GPU = dma.Address, gpu.Address
	if nic.Parent != nil {
		if drives := find(below(nic.Root()), modelNVMe); len(drives) > 0 {
			c.NVMe = drives[0].Address
			c.add(drives...)
		}
	}
	return c, nil
}

// inline returns the complex of a GPU below the switch of a ConnectX.
func (t *Topology) inline(gpu *Device) (Complex, error) {
	refuse := func(what string) (Complex, error) {
		return Complex{}, unsupported("the GPU %s %s", gpu.Address, what)
	}
	shared := parent(parent(parent(parent(gpu, modelSwitch), modelSwitch), modelSwitch), modelSwitch)
	if shared == nil {
		return refuse("is not below two switches of a ConnectX")
	}
	root := shared.Parent
	for root != nil && root.model != modelGenericRP {
		root = root.Parent
	}
	if root == nil {
		return refuse("has no root port above its switches")
	}
	nics := find(below(shared), modelNIC)
	if len(nics) == 0 {
		return refuse("has no ConnectX below its first switch")
	}
	ports := make(map[string]int)
	for _, port := range shared.Children {
		for _, d := range below(port) {
			if d.model == modelNIC || d.model == modelGPU {
				ports[d.model]++
				break
			}
		}
	}
	if ports[modelNIC] != 1 || ports[modelGPU] != 1 {
		return refuse(fmt.Sprintf("has %d ports with NICs and %d with GPUs at its first switch, want one of each", ports[modelNIC], ports[modelGPU]))
	}
	c := newComplex(nics[0], nics[0], gpu)
	c.GPU, c.ATS = gpu.Address, &nics[0].ATS
	return c, nil
}

// byNode returns a complex for each NUMA node.
func (t *Topology) byNode() (all []Complex, err error) {
	nodes := make(map[int][]*Device)
	for _, d := range t.Devices {
		if d.NUMANode >= 0 {
			nodes[d.NUMANode] = append(nodes[d.NUMANode], d)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		nics, gpus := find(nodes[node], modelNIC), find(nodes[node], modelGPU)
		if len(nics) == 0 || len(gpus) == 0 {
			return nil, unsupported("NUMA node %d has %d ConnectX functions and %d GPUs of NVIDIA, want some of each", node, len(nics), len(gpus))
		}
		c := newComplex(nics[0], append(nics, gpus...)...)
		for _, gpu := range gpus {
			c.GPUs = append(c.GPUs, gpu.Address)
		}
		if len(nics) == 1 {
			c.ATS = &nics[0].ATS
		} else {
			c.NIC, c.Boards = "", boards(nics)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, unsupported("no PCI function has a NUMA node")
	}
	return all, nil
}

// boards groups NICs by their serial numbers, and those of a board by the bridge above them.
func boards(nics []*Device) (all []Board) {
	type key struct {
		sn     string
		parent *Device
	}
	groups := make(map[key][]*Device)
	for _, d := range nics {
		k := key{d.SerialNumber, d.Parent}
		groups[k] = append(groups[k], d)
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b key) int {
		if c := strings.Compare(a.sn, b.sn); c != 0 {
			return c
		}
		switch {
		case a.parent != nil && b.parent != nil:
			return byAddressOrder(a.parent, b.parent)
		case a.parent != nil:
			return -1
		}
		return 1
	})
	last := key{sn: "\x00"} // which no board has
	for _, k := range keys {
		if k.sn != last.sn {
			all = append(all, Board{SerialNumber: cmp.Or(k.sn, unknown)})
		}
		last = k
		n := BoardNIC{Parent: unknown, ATS: groups[k][0].ATS}
		if k.parent != nil {
			n.Parent = k.parent.Address
		}
		for _, d := range groups[k] {
			n.Functions = append(n.Functions, d.Address)
		}
		b := &all[len(all)-1]
		b.NICs = append(b.NICs, n)
	}
	return all
}

const unknown = "UNKNOWN" // rdma_topo's word

// NICs returns a Complex for each NIC of any vendor, with the GPUs that are nearest to it, in the order of their
// addresses. Those of the same NUMA node count as near, if none shares a switch or root port with it.
func (t *Topology) NICs() []Complex {
	all := []Complex{}
	for _, d := range t.Devices {
		if d.Kind != NIC {
			continue
		}
		gpus := t.Nearest(d, GPU)
		c := newComplex(d, append(gpus, d)...)
		for _, gpu := range gpus {
			c.GPUs = append(c.GPUs, gpu.Address)
		}
		if len(d.DataDirect) > 0 {
			c.DataDirect = d.DataDirect[0].Address
		}
		all = append(all, c)
	}
	return all
}

// newComplex returns the complex of a NIC, with the names of devices.
func newComplex(nic *Device, of ...*Device) Complex {
	c := Complex{NIC: nic.Address, NICName: nic.ProductName, Subsystems: make(map[string]map[string][]string), first: nic}
	if nic.hasNode {
		c.NUMANode = &nic.NUMANode
	}
	c.add(of...)
	return c
}

func (c *Complex) add(of ...*Device) {
	for _, d := range of {
		if len(d.dirs) > 0 {
			c.Subsystems[d.Address] = d.dirs
		}
	}
}
