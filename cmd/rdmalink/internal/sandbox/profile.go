package sandbox

import (
	"cmp"
	"embed"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/verbs"
)

// profile is a machine: its PCI devices, and the RDMA devices among them. It is read from NCCL's description of a
// machine, which NCCL writes with NCCL_TOPO_DUMP_FILE.
type profile struct {
	pci     []pciNode
	devices []profileDevice
	skipped []string // NICs of which there is no model
}

// pciNode is a PCI device, or a bridge.
type pciNode struct {
	path  string // in sysfs
	files map[string]string
}

// profileDevice is an RDMA device.
type profileDevice struct {
	kind   string // of kinds
	name   string
	path   string // of its PCI device in sysfs
	vendor uint16
	device uint16
	guid   verbs.GUID // 0: the model's own
	speed  int        // in Mb/s; 0: the model's own
}

// The format, as far as it is used.
type (
	xmlSystem struct {
		XMLName xml.Name `xml:"system"`
		CPUs    []xmlCPU `xml:"cpu"`
	}
	xmlCPU struct {
		NUMA string   `xml:"numaid,attr"`
		PCI  []xmlPCI `xml:"pci"`
	}
	xmlPCI struct {
		BusID           string   `xml:"busid,attr"`
		Class           string   `xml:"class,attr"`
		Vendor          string   `xml:"vendor,attr"`
		Device          string   `xml:"device,attr"`
		SubsystemVendor string   `xml:"subsystem_vendor,attr"`
		SubsystemDevice string   `xml:"subsystem_device,attr"`
		LinkSpeed       string   `xml:"link_speed,attr"`
		LinkWidth       string   `xml:"link_width,attr"`
		PCI             []xmlPCI `xml:"pci"`
		Nets            []xmlNet `xml:"nic>net"`
	}
	xmlNet struct {
		Name  string `xml:"name,attr"`
		Speed int    `xml:"speed,attr"`
		GUID  string `xml:"guid,attr"`
	}
)

// pciDomains is the beginning of the directories of all PCI devices.
const pciDomains = "/sys/devices/pci"

// A profile's file is somebody else's.
const (
	mostProfile        = 1 << 20 // bytes
	mostPCI            = 4096
	mostProfileDevices = 64
	deepestPCI         = 16 // switches above a device
)

//go:embed profiles
var profiles embed.FS

// profileNames returns the names of the profiles that rdmalink has.
func profileNames() (names []string) {
	entries, _ := profiles.ReadDir("profiles")
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".xml"))
	}
	return names
}

// openProfile reads a profile of rdmalink's, or one from a file, whose name has a dot or slash in it.
func openProfile(name string) (*profile, error) {
	if strings.ContainsAny(name, "./") {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		p, err := readProfile(file)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", name, err)
		}
		return p, nil
	}
	file, err := profiles.Open("profiles/" + name + ".xml")
	if err != nil {
		return nil, cli.Expected(name, append(profileNames(), "a file whose name has a dot or a slash in it")...)
	}
	defer file.Close()
	return readProfile(file)
}

var errProfile = errors.New("it is no description of a machine by NCCL, as NCCL_TOPO_DUMP_FILE has it written")

func readProfile(r io.Reader) (*profile, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostProfile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > mostProfile {
		return nil, fmt.Errorf("more than %d bytes", mostProfile)
	}
	var s xmlSystem
	if err := xml.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%w (%w)", errProfile, err)
	}
	b := profileBuilder{used: make(map[busID]bool), names: make(map[string]bool)}
	for _, c := range s.CPUs {
		b.take(c.PCI)
	}
	for _, c := range s.CPUs {
		numa, err := strconv.ParseInt(cmp.Or(c.NUMA, "-1"), 10, 16)
		if err != nil || numa < -1 {
			return nil, fmt.Errorf("NUMA node %q", c.NUMA)
		}
		b.numa = strconv.FormatInt(numa, 10)
		for i := range c.PCI {
			if err := b.root(&c.PCI[i]); err != nil {
				return nil, err
			}
		}
	}
	if len(b.devices) == 0 {
		return nil, fmt.Errorf("it has no NIC of which there is a model, with vendor 0x15b3 (mlx5), 0x1d0f (efa) or 0x1ded (erdma): %w", cmp.Or(b.skip(), errProfile))
	}
	return &b.profile, nil
}

// busID is the address of a PCI device.
type busID struct{ domain, bus, slot, function uint32 }

func (b busID) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", b.domain, b.bus, b.slot, b.function)
}

var busIDs = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])$`)

func parseBusID(s string) (b busID, err error) {
	m := busIDs.FindStringSubmatch(strings.ToLower(s))
	if m == nil {
		return b, fmt.Errorf("bus ID %.40q: expected one such as 0000:18:00.0", s)
	}
	for i, to := range []*uint32{&b.domain, &b.bus, &b.slot, &b.function} {
		n, _ := strconv.ParseUint(m[i+1], 16, 16)
		*to = uint32(n)
	}
	return b, nil
}

// profileBuilder makes directories of sysfs from the tree of the format, which leaves out the ports of root complexes
// and the lower ports of switches.
type profileBuilder struct {
	profile
	used  map[busID]bool
	names map[string]bool // of RDMA devices
	numa  string
}

// take notes the addresses that the file has, so that those of ports are others.
func (b *profileBuilder) take(nodes []xmlPCI) {
	for i := range nodes {
		if id, err := parseBusID(nodes[i].BusID); err == nil {
			b.used[id] = false
		}
		b.take(nodes[i].PCI)
	}
}

// port returns an unused address on a bus.
func (b *profileBuilder) port(domain, bus uint32) (busID, error) {
	for n := range uint32(32 * 8) {
		id := busID{domain, bus & 0xff, (n + 1) % 32, n / 32}
		if _, taken := b.used[id]; !taken {
			b.used[id] = true
			return id, nil
		}
	}
	return busID{}, fmt.Errorf("bus %04x:%02x is full", domain, bus)
}

// root adds a device that is behind a port of a root complex, or in it if its bus is 0.
func (b *profileBuilder) root(x *xmlPCI) error {
	id, err := parseBusID(x.BusID)
	if err != nil {
		return err
	}
	if id.bus == 0 && len(x.PCI) == 0 {
		return b.add(x, fmt.Sprintf("%s%04x:00", pciDomains, id.domain), 0)
	}
	bus := (id.bus - 1) & 0xff
	port, err := b.port(id.domain, bus)
	if err != nil {
		return err
	}
	parent := fmt.Sprintf("%s%04x:%02x/%v", pciDomains, id.domain, bus, port)
	if err := b.bridge(parent); err != nil {
		return err
	}
	return b.add(x, parent, 0)
}

// bridge adds a port, of which the format says nothing.
func (b *profileBuilder) bridge(path string) error {
	return b.node(path, &xmlPCI{Class: "0x060400"})
}

func (b *profileBuilder) add(x *xmlPCI, parent string, depth int) error {
	id, err := parseBusID(x.BusID)
	switch {
	case err != nil:
		return err
	case b.used[id]:
		return fmt.Errorf("%v is there twice", id)
	case depth > deepestPCI:
		return fmt.Errorf("%v is behind more than %d switches", id, deepestPCI)
	}
	b.used[id] = true
	dir := parent + "/" + id.String()
	if err := b.node(dir, x); err != nil {
		return err
	}
	if err := b.nic(x, id, dir); err != nil {
		return err
	}
	for i := range x.PCI {
		port, err := b.port(id.domain, id.bus+1)
		if err != nil {
			return err
		}
		below := dir + "/" + port.String()
		if err := b.bridge(below); err != nil {
			return err
		}
		if err := b.add(&x.PCI[i], below, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// hexNumber returns a number as sysfs writes it. An empty one is fallback.
func hexNumber(s, fallback string, digits int) (string, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(cmp.Or(s, fallback), "0x"), 16, 4*digits)
	if err != nil {
		return "", fmt.Errorf("%.40q is no number of %d hexadecimal digits", s, digits)
	}
	return fmt.Sprintf("0x%0*x", digits, n), nil
}

var linkSpeeds = regexp.MustCompile(`^[0-9]{1,3}(\.[0-9])? GT/s( PCIe)?$`)

// node adds the files of a PCI device.
func (b *profileBuilder) node(dir string, x *xmlPCI) error {
	if len(b.pci) == mostPCI {
		return fmt.Errorf("more than %d PCI devices", mostPCI)
	}
	files := map[string]string{"numa_node": b.numa, "local_cpulist": onlineCPUs(), "revision": "0x00"}
	for _, n := range []struct {
		name, value, fallback string
		digits                int
	}{
		{"class", x.Class, "0x060400", 6}, {"vendor", x.Vendor, cmp.Or(impliedVendor(x), "0x0000"), 4}, {"device", x.Device, cmp.Or(impliedDevice(x), "0x0000"), 4},
		{"subsystem_vendor", x.SubsystemVendor, "0x0000", 4}, {"subsystem_device", x.SubsystemDevice, "0x0000", 4},
	} {
		text, err := hexNumber(n.value, n.fallback, n.digits)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", n.name, path.Base(dir), err)
		}
		files[n.name] = text
	}
	if linkSpeeds.MatchString(x.LinkSpeed) {
		files["max_link_speed"], files["current_link_speed"] = x.LinkSpeed, x.LinkSpeed
	}
	if width, err := strconv.ParseUint(x.LinkWidth, 10, 6); err == nil {
		text := strconv.FormatUint(width, 10)
		files["max_link_width"], files["current_link_width"] = text, text
	}
	files["uevent"] = fmt.Sprintf("PCI_CLASS=%s\nPCI_ID=%s:%s\nPCI_SLOT_NAME=%s", strings.TrimLeft(files["class"][2:], "0"),
		strings.ToUpper(files["vendor"][2:]), strings.ToUpper(files["device"][2:]), path.Base(dir))
	b.pci = append(b.pci, pciNode{dir, files})
	return nil
}

// isInfiniBand reports whether the class of a device is that of an InfiniBand controller.
func (x *xmlPCI) isInfiniBand() bool { return strings.HasPrefix(x.Class, "0x0207") }

// impliedVendor returns the vendor of a device of which the file has only the class, as templates of clouds do.
func impliedVendor(x *xmlPCI) string {
	if x.isInfiniBand() {
		return "0x15b3"
	}
	return ""
}

// impliedDevice is a ConnectX-7 or, with a slower link, a ConnectX-6.
func impliedDevice(x *xmlPCI) string {
	switch {
	case !x.isInfiniBand():
		return ""
	case strings.HasPrefix(x.LinkSpeed, "32"):
		return "0x1021"
	}
	return "0x101b"
}

var deviceNames = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// nic adds the RDMA devices of a PCI device, if it is a NIC.
func (b *profileBuilder) nic(x *xmlPCI, id busID, dir string) error {
	files := b.pci[len(b.pci)-1].files
	if !strings.HasPrefix(files["class"], "0x02") {
		return nil
	}
	d := profileDevice{path: dir, vendor: number16(files["vendor"]), device: number16(files["device"])}
	switch d.vendor {
	case 0x15b3:
		d.kind = "mlx5"
		if x.isInfiniBand() {
			d.kind = "mlx5-ib"
		}
	case 0x1d0f:
		d.kind = "efa"
	case 0x1ded:
		d.kind = "erdma"
	default:
		b.skipped = append(b.skipped, fmt.Sprintf("%v (vendor %s)", id, files["vendor"]))
		return nil
	}
	if x.Nets == nil {
		x.Nets = make([]xmlNet, 1)
	}
	for i, net := range x.Nets {
		one := d
		if i > 0 { // the format merges the functions of a card
			id.function++
			one.path = path.Dir(dir) + "/" + id.String()
			if _, taken := b.used[id]; taken || id.function > 7 {
				return fmt.Errorf("%v has more ports than free functions", id)
			}
			b.used[id] = true
			if err := b.node(one.path, x); err != nil {
				return err
			}
		}
		if one.name = net.Name; one.name == "" {
			one.name = b.defaultName(&one, id)
		}
		if !deviceNames.MatchString(one.name) {
			return fmt.Errorf("%.40q can't be the name of a device", one.name)
		}
		if b.names[one.name] {
			return fmt.Errorf("two devices have the name %s", one.name)
		}
		b.names[one.name] = true
		guid, err := strconv.ParseUint(cmp.Or(net.GUID, "0"), 0, 64)
		if err != nil {
			return fmt.Errorf("GUID %.40q of %s", net.GUID, one.name)
		}
		one.guid, one.speed = verbs.GUID(bits.ReverseBytes64(guid)), net.Speed // NCCL writes the bytes of the network as a little-endian number
		if net.Speed != 0 && !slices.ContainsFunc(rates, func(r rate) bool { return r.speed == net.Speed }) {
			return fmt.Errorf("speed %d of %s: no rate of a port", net.Speed, one.name)
		}
		if b.devices = append(b.devices, one); len(b.devices) > mostProfileDevices {
			return fmt.Errorf("more than %d RDMA devices", mostProfileDevices)
		}
	}
	return nil
}

// defaultName returns the name that the driver gives, or that udev makes of the address.
func (b *profileBuilder) defaultName(d *profileDevice, id busID) string {
	if d.kind == "efa" {
		return fmt.Sprintf("rdmap%ds%d", id.bus, id.slot)
	}
	return strings.TrimSuffix(d.kind, "-ib") + "_" + strconv.Itoa(len(b.devices))
}

func (b *profileBuilder) skip() error {
	if b.skipped == nil {
		return nil
	}
	return fmt.Errorf("its NICs are %s", strings.Join(b.skipped, ", "))
}

func number16(s string) uint16 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 16)
	return uint16(n)
}

// rate is the rate of a port.
type rate struct {
	speed      int // in Mb/s
	width      uint8
	lanes      string
	active     uint32 // of a lane, as ibv_port_attr has it
	generation string
}

var rates = []rate{
	{10_000, 2, "4X", 1, "SDR"}, {20_000, 2, "4X", 2, "DDR"}, {25_000, 1, "1X", 32, "EDR"}, {40_000, 2, "4X", 4, "QDR"}, {50_000, 1, "1X", 64, "HDR"}, {56_000, 2, "4X", 16, "FDR"},
	{100_000, 2, "4X", 32, "EDR"}, {200_000, 2, "4X", 64, "HDR"}, {400_000, 2, "4X", 128, "NDR"}, {800_000, 2, "4X", 256, "XDR"},
}

// String writes the rate as sysfs does.
func (r rate) String() string {
	return fmt.Sprintf("%d Gb/sec (%s %s)", r.speed/1000, r.lanes, r.generation)
}

// onlineCPUs returns the CPUs of the machine, which are all near to a device of no NUMA node.
func onlineCPUs() string {
	b, _ := os.ReadFile("/sys/devices/system/cpu/online")
	return cmp.Or(strings.TrimSpace(string(b)), "0")
}
