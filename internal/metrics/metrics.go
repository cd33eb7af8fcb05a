// Package metrics collects the state of the RDMA devices of a machine: ports, counters, limits,
// objects by process, cgroup and pod, and events. rdmalink top shows this state, and
// rdmalink-exporter exports it to Prometheus.
//
// A Collector needs no privileges, but without them the kernel may hide some data. The limits below
// bound the data of a collection. A collection leaves out a device that is removed meanwhile.
package metrics

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/rtnetlink"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Limits of one collection. It leaves out data beyond a limit, and returns an Error for it.
const (
	maxDevices   = 256
	maxPorts     = 256     // per device
	maxCounters  = 512     // per port
	maxGIDs      = 64      // per port
	maxObjects   = 1 << 20 // per kind and device
	maxProcesses = 256
	maxUses      = 1024 // of devices by processes
	maxCgroups   = 1024 // resources of devices in cgroups
	maxPods      = 4096
)

// detailsAge is the maximum age of limits, GIDs and MTUs, which are read from the device's node.
const detailsAge = time.Minute

// Collector collects snapshots. Collect may be called concurrently. The calls run one after another.
type Collector struct {
	RDMA      *netlinkrdma.Client
	Route     rtnetlink.Route
	Proc, Sys fs.FS
	// Pods is the kubelet's directory /var/log/pods, whose entries have names of the form
	// NAMESPACE_NAME_UID. It may be nil.
	Pods fs.FS
	// Query reads the details of a device. If it is nil, snapshots have no details.
	Query func(d netlinkrdma.Device) (Details, error)

	mu      sync.Mutex
	details map[uint32]cached
	last    map[portID]map[counterID]uint64
	falls   map[portID]uint64

	cgroups *hierarchy // found once: the root of a namespace never moves
}

type portID struct {
	device uint32
	port   int
}

type counterID struct {
	name   string
	origin Origin
}

type cached struct {
	key     string // the details are stale when it changes
	read    time.Time
	details Details
	err     error
}

// New returns a Collector for the running kernel.
func New() *Collector {
	return &Collector{RDMA: &netlinkrdma.Client{Kernel: new(netlinkrdma.Socket)}, Route: rtnetlink.Kernel, Proc: os.DirFS("/proc"), Sys: os.DirFS("/sys"),
		Pods: os.DirFS("/var/log/pods"), Query: Query}
}

// Details holds the attributes that only an open device reports.
type Details struct {
	Limits *verbs.DeviceAttr
	MTU    map[int]int // in bytes, by port
	GIDs   []verbs.GIDEntry
}

// Query opens the device, reads its details and closes it. It doesn't keep the device open, because the
// kernel can't remove an open device. Query needs access to the device's node, which all users have by
// default.
func Query(d netlinkrdma.Device) (Details, error) {
	dev, err := uverbs.OpenIndex(d.Index, d.NodeGUID)
	if err != nil {
		return Details{}, err
	}
	defer dev.Close() // without objects it can't fail
	return DetailsOf(dev, d.Ports)
}

// DetailsOf reads the details of an open device.
func DetailsOf(dev *uverbs.Device, ports int) (Details, error) {
	details := Details{MTU: make(map[int]int)}
	var errs [2]error
	details.Limits, errs[0] = dev.QueryDevice()
	details.GIDs, errs[1] = dev.GIDTable()
	for port := 1; port <= min(ports, maxPorts); port++ {
		if attr, err := dev.QueryPort(port); err == nil {
			details.MTU[port] = attr.ActiveMTU.Bytes()
		}
	}
	return details, errors.Join(errs[:]...)
}

// Snapshot is the state of a machine.
type Snapshot struct {
	Time      time.Time
	Devices   []Device
	Processes []Process // those with most objects come first
	Netdevs   []Netdev  // network devices of RoCE ports
	Cgroups   []Cgroup
	Errors    []Error
}

// Error is the reason why a part of a snapshot is missing.
type Error struct {
	Part   string // devices, ports, counters, details, objects, netdev, cgroups
	Device string // empty if the part is missing for all devices
	Err    error
}

// Device is an RDMA device.
type Device struct {
	netlinkrdma.Device
	Driver verbs.DriverID
	// Bus is the name of the hardware in sysfs: a PCI address, or that of an auxiliary device, such as
	// mlx5_core.sf.4. It is empty if the device has none.
	Bus      string
	Limits   *verbs.DeviceAttr // nil if the device could not be opened
	Objects  []netlinkrdma.Resource
	Ports    []Port
	Counters []Counter // counters of the device as a whole
}

// Port is a port of a device.
type Port struct {
	netlinkrdma.Port
	Rate      uint64 // in bits per second; 0 if unknown
	MTU       int    // in bytes; 0 if unknown
	NetdevMTU int    // in bytes; 0 if there is no network device
	GIDs      []verbs.GIDEntry
	Counters  []Counter
	Optional  []netlinkrdma.CounterStatus
	// Falls is the number of times that a counter of the port had a smaller value than in the
	// previous snapshot. The driver has reset the counter, or it has wrapped around.
	Falls uint64
}

// Sum returns the sum of the port's counters of a metric. It reports whether the port has any.
func (p *Port) Sum(metric string) (sum uint64, ok bool) {
	for _, c := range p.Counters {
		if c.Metric != nil && c.Metric.Name == metric {
			sum, ok = sum+c.Value, true
		}
	}
	return sum, ok
}

// Netdev is the network device of a RoCE port.
type Netdev struct {
	Name   string
	Index  uint32
	DCB    *rtnetlink.DCB // nil if the device doesn't support it
	Qdiscs []rtnetlink.Qdisc
}

// Collect returns the state of the machine. It fails only if the devices can't be listed. Other
// failures are in Snapshot.Errors.
func (c *Collector) Collect() (*Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &Snapshot{Time: time.Now()}
	devices, err := c.RDMA.Devices()
	if err != nil {
		return nil, err
	}
	if len(devices) > maxDevices {
		s.fail("devices", "", fmt.Errorf("%d devices, %d are shown", len(devices), maxDevices))
		devices = devices[:maxDevices]
	}
	u := newUsers(c.Proc)
	seen := make(map[uint32]bool)
	for _, d := range devices {
		if !seen[d.Index] {
			seen[d.Index] = true
			c.device(s, u, d)
		}
	}
	c.forget(seen)
	c.netdevs(s)
	if c.cgroups == nil {
		c.cgroups = findHierarchy(c.Proc, c.Sys)
	}
	u.finish(s, c.cgroups, podNames(c.Pods))
	return s, nil
}

func (s *Snapshot) fail(part, device string, err error) {
	s.Errors = append(s.Errors, Error{part, device, err})
}

// renames is the maximum number of times that a device is read again because its name has changed.
const renames = 3

// device adds a device, unless it has been removed. Paths of sysfs contain its name, so a device that
// was renamed meanwhile is read again.
func (c *Collector) device(s *Snapshot, u *users, d netlinkrdma.Device) {
	for range renames {
		part := &Snapshot{}
		objects := newObjects()
		one := c.read(part, objects, d)
		now, err := c.RDMA.Device(d.Index)
		if errors.Is(err, netlinkrdma.ErrNotFound) {
			return
		}
		if err == nil && now.Name != d.Name {
			d = now
			continue
		}
		s.Devices = append(s.Devices, one)
		s.Errors = append(s.Errors, part.Errors...)
		u.add(d.Name, objects)
		return
	}
	s.fail("devices", d.Name, errors.New("its name keeps changing"))
}

func (c *Collector) read(s *Snapshot, objects *objects, d netlinkrdma.Device) Device {
	one := Device{Device: d}
	dir := sysDir(d.Name)
	if dir != "" && c.Sys != nil {
		if link, err := fs.ReadLink(c.Sys, path.Join(dir, "device")); err == nil {
			one.Bus = path.Base(link)
		}
	}
	if char, err := c.RDMA.UverbsCharDev(d.Index); err == nil {
		one.Driver = verbs.DriverID(char.DriverID)
	}
	ports, err := c.RDMA.Ports(d.Index)
	if err != nil {
		s.fail("ports", d.Name, err)
	}
	if len(ports) > maxPorts {
		s.fail("ports", d.Name, fmt.Errorf("%d ports, %d are shown", len(ports), maxPorts))
		ports = ports[:maxPorts]
	}
	one.Ports = make([]Port, len(ports))
	for i, p := range ports {
		one.Ports[i].Port = p
		c.port(s, &one.Ports[i], d, dir)
	}
	c.addDetails(s, &one)
	if one.Objects, err = c.RDMA.Resources(d.Index, nil); err != nil {
		s.fail("objects", d.Name, err)
	}
	if dir != "" {
		one.Counters = c.sysCounters(path.Join(dir, "hw_counters"), Driver)
	}
	if err := objects.read(c.RDMA, d.Index); err != nil {
		s.fail("objects", d.Name, err)
	}
	return one
}

func (c *Collector) port(s *Snapshot, p *Port, d netlinkrdma.Device, dir string) {
	if dir != "" {
		dir = path.Join(dir, "ports", strconv.FormatUint(uint64(p.Index), 10))
		p.Rate = parseRate(text(c.Sys, path.Join(dir, "rate")))
	}
	if net := sysName(p.NetdevName); net != "" {
		p.NetdevMTU, _ = strconv.Atoi(text(c.Sys, path.Join("class/net", net, "mtu")))
	}
	var err error
	if p.Optional, err = c.RDMA.CounterStatus(d.Index, p.Index); err == nil {
		p.Optional = slices.DeleteFunc(p.Optional, func(s netlinkrdma.CounterStatus) bool { return !s.Optional })
		p.Optional = p.Optional[:min(len(p.Optional), maxCounters)]
	}
	values, err := c.RDMA.PortCounters(d.Index, p.Index)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // older kernels have them only in sysfs
		if dir != "" {
			p.Counters = c.sysCounters(path.Join(dir, "hw_counters"), Driver)
		}
	case err != nil:
		s.fail("counters", d.Name, err)
	}
	for _, v := range values {
		origin := Driver
		if slices.ContainsFunc(p.Optional, func(s netlinkrdma.CounterStatus) bool { return s.Name == v.Name }) {
			origin = Optional
		}
		p.Counters = append(p.Counters, Counter{Name: v.Name, Value: v.Value, Origin: origin})
	}
	if dir != "" {
		p.Counters = append(p.Counters, c.sysCounters(path.Join(dir, "counters"), Standard)...)
	}
	if len(p.Counters) > maxCounters {
		s.fail("counters", d.Name, fmt.Errorf("%d counters of port %d, %d are shown", len(p.Counters), p.Index, maxCounters))
		p.Counters = p.Counters[:maxCounters]
	}
	c.compare(portID{d.Index, p.Index}, p)
	interpret(p.Counters)
}

// compare counts the counters whose values have become smaller.
func (c *Collector) compare(id portID, p *Port) {
	if c.last == nil {
		c.last, c.falls = make(map[portID]map[counterID]uint64), make(map[portID]uint64)
	}
	now := make(map[counterID]uint64, len(p.Counters))
	for _, counter := range p.Counters {
		key := counterID{counter.Name, counter.Origin}
		if counter.Value < c.last[id][key] && !counter.Gauge() {
			c.falls[id]++
		}
		now[key] = counter.Value
	}
	c.last[id] = now
	p.Falls = c.falls[id]
}

// forget removes the state of devices that no longer exist.
func (c *Collector) forget(present map[uint32]bool) {
	for index := range c.details {
		if !present[index] {
			delete(c.details, index)
		}
	}
	for id := range c.falls {
		if !present[id.device] {
			delete(c.falls, id)
		}
	}
	for id := range c.last {
		if !present[id.device] {
			delete(c.last, id)
		}
	}
}

// addDetails adds limits, MTUs and GIDs. It reads them again when the name, a port or a network device
// has changed, and at least once a minute.
func (c *Collector) addDetails(s *Snapshot, d *Device) {
	if c.Query == nil {
		return
	}
	key := d.Name
	for _, p := range d.Ports {
		key += fmt.Sprintf(" %d %d %d %d", p.Index, p.State, p.NetdevIndex, p.NetdevMTU)
	}
	if c.details == nil {
		c.details = make(map[uint32]cached)
	}
	kept, ok := c.details[d.Index]
	if !ok || kept.key != key || time.Since(kept.read) > detailsAge {
		kept = cached{key: key, read: time.Now()}
		kept.details, kept.err = c.Query(d.Device)
		c.details[d.Index] = kept
	}
	if kept.err != nil {
		s.fail("details", d.Name, kept.err)
	}
	d.Limits = kept.details.Limits
	for i := range d.Ports {
		p := &d.Ports[i]
		p.MTU = kept.details.MTU[p.Index]
		for _, g := range kept.details.GIDs {
			if g.Port == p.Index && len(p.GIDs) < maxGIDs {
				p.GIDs = append(p.GIDs, g)
			}
		}
	}
}

// netdevs reads the settings of the network devices of RoCE ports.
func (c *Collector) netdevs(s *Snapshot) {
	if c.Route == nil {
		return
	}
	seen := make(map[string]bool)
	for _, d := range s.Devices {
		for _, p := range d.Ports {
			if d.Protocol != "roce" || p.NetdevName == "" || seen[p.NetdevName] {
				continue
			}
			seen[p.NetdevName] = true
			n := Netdev{Name: p.NetdevName, Index: p.NetdevIndex}
			var err error
			if n.DCB, err = c.Route.DCB(p.NetdevName); err != nil {
				n.DCB = nil
				if !errors.Is(err, syscall.EOPNOTSUPP) && !errors.Is(err, syscall.ENODEV) && !errors.Is(err, errors.ErrUnsupported) {
					s.fail("netdev", d.Name, err)
				}
			}
			if n.Qdiscs, err = c.Route.Qdiscs(p.NetdevIndex); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				s.fail("netdev", d.Name, err)
			}
			n.Qdiscs = n.Qdiscs[:min(len(n.Qdiscs), maxCounters)]
			s.Netdevs = append(s.Netdevs, n)
		}
	}
}

// sysCounters reads the counters in a directory of sysfs. It skips counters that can't be read, which
// the device lacks.
func (c *Collector) sysCounters(dir string, origin Origin) (all []Counter) {
	entries, err := fs.ReadDir(c.Sys, dir)
	if err != nil {
		return nil
	}
	for _, e := range entries[:min(len(entries), maxCounters)] {
		if e.Name() == "lifespan" { // a setting, the time for which values are cached
			continue
		}
		if v, err := strconv.ParseUint(text(c.Sys, path.Join(dir, e.Name())), 10, 64); err == nil {
			all = append(all, Counter{Name: e.Name(), Value: v, Origin: origin})
		}
	}
	return all
}

// sysName returns the name if it is a single element of a path, or "".
func sysName(name string) string {
	if name == "." || strings.ContainsAny(name, "/\x00") || !fs.ValidPath(name) {
		return ""
	}
	return name
}

func sysDir(device string) string {
	if device = sysName(device); device == "" {
		return ""
	}
	return path.Join("class/infiniband", device)
}

// text returns the content of a file, or "" if it can't be read.
func text(tree fs.FS, name string) string {
	if tree == nil {
		return ""
	}
	b, err := fs.ReadFile(tree, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// parseRate parses a line such as "100 Gb/sec (4X EDR)" or "2.5 Gb/sec (1X SDR)".
func parseRate(line string) uint64 {
	number, unit, _ := strings.Cut(line, " ")
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") || rate < 0 || rate > 1e6 {
		return 0
	}
	return uint64(rate*10+0.5) * 1e8
}

// Printable escapes control characters, quotes and invalid UTF-8 of a name in Go syntax. If the result
// has more than 256 bytes, it is truncated and ends in ~ and a hash of the name, so that names which
// begin alike stay different. Names come from drivers, processes and files.
func Printable(name string) string {
	const most = 256
	q := strconv.Quote(name)
	q = q[1 : len(q)-1]
	if len(q) <= most {
		return q
	}
	sum := sha256.Sum256([]byte(name))
	hash := "~" + hex.EncodeToString(sum[:8])
	cut := most - len(hash)
	for q[cut]&0xc0 == 0x80 { // within a character
		cut--
	}
	return q[:cut] + hash
}
