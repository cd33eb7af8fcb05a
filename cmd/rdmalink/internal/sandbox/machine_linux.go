package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// hostNumber returns the number of the host that the host variable names, by default 1.
func hostNumber(value string, hosts int) (int, error) {
	if value == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > hosts {
		return 1, fmt.Errorf("%s=%q names no host; there are 1 to %d", hostVariable, value, hosts)
	}
	return n, nil
}

// machine is a host with its devices, as its processes see it.
type machine struct {
	kernel.Kernel
	addr    netip.Addr
	netlink netlinkrdma.Kernel
	tree    string
	nodes   map[string]node // by path
	devices []*verbsDevice
	fabric  *fabricHost // of a host of --fabric
}

// verbsDevice is a device and its node.
type verbsDevice struct {
	netlinkrdma.Device
	char  netlinkrdma.CharDev // as on the host
	n     uint32              // uverbsN
	model *fakeverbs.Device
	own   *rdmatest.Device
	card  card
	rate  string
	guid  verbs.GUID // 0: the model's
	gids  int        // files with GIDs; the lock of the faults guards it

	opened *fakeverbs.Kernel // by whichever program; the supervisor's lock guards it
}

// newMachine shows the devices of a host of a kernel, whose first device is its n-th one. p may be nil.
func newMachine(k kernel.Kernel, n int, h *rdmatest.Host, dir string, p *profile) (*machine, error) {
	addr := h.Device(0).Addrs()[0]
	m := &machine{Kernel: k, addr: addr, tree: dir, nodes: map[string]node{"/dev/infiniband/rdma_cm": cmNode}}
	m.netlink = ownNetlink{k.Netlink(), m}
	for i, own := range h.Devices() {
		d, err := newVerbsDevice(k, n+i, own)
		if err != nil {
			return nil, err
		}
		if p != nil {
			d.applyProfile(&p.devices[i])
		}
		m.devices = append(m.devices, d)
		m.nodes["/dev/infiniband/"+d.name()] = d.node()
	}
	return m, m.plant(p)
}

// newVerbsDevice returns the n-th device of a kernel.
func newVerbsDevice(k kernel.Kernel, n int, own *rdmatest.Device) (*verbsDevice, error) {
	c := netlinkrdma.Client{Kernel: k.Netlink()}
	devices, err := c.Devices()
	if err != nil {
		return nil, err
	}
	char, err := c.UverbsCharDev(devices[n].Index)
	if err != nil {
		return nil, err
	}
	f, err := k.OpenDevice(char.Path(), 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return &verbsDevice{Device: devices[n], char: char, n: uint32(n), model: f.(*fakeverbs.Kernel).Device, own: own,
		card: cards[char.DriverID], rate: "2.5 Gb/sec (1X SDR)"}, nil
}

// applyProfile sets the attributes of the device to those of its profile.
func (d *verbsDevice) applyProfile(p *profileDevice) {
	d.card.dir, d.card.vendor, d.card.device = p.path, p.vendor, p.device
	if d.card.hca != "" {
		d.card.hca, d.card.board = fmt.Sprintf("MT%d", p.device), "" // the profile doesn't say which board
	}
	d.model.Limits.Device.VendorPartId = uint32(p.device)
	if p.guid != 0 {
		d.guid, d.NodeGUID, d.SysImageGUID = p.guid, p.guid, p.guid
		d.model.NodeGUID = bits.ReverseBytes64(uint64(p.guid))
	}
	for _, r := range rates {
		if r.speed == p.speed {
			port := &d.model.Limits.Port
			d.rate, port.ActiveWidth, port.ActiveSpeed = r.String(), r.width, uint8(min(r.active, math.MaxUint8))
		}
	}
}

// device returns the device of a node, or nil.
func (m *machine) device(is node) *verbsDevice {
	return m.deviceThat(func(d *verbsDevice) bool { return d.node() == is })
}

// indexed returns the device with an index in netlink, or nil.
func (m *machine) indexed(index uint32) *verbsDevice {
	return m.deviceThat(func(d *verbsDevice) bool { return d.Index == index })
}

func (m *machine) deviceThat(fits func(*verbsDevice) bool) *verbsDevice {
	if i := slices.IndexFunc(m.devices, fits); i >= 0 {
		return m.devices[i]
	}
	return nil
}

func (d *verbsDevice) name() string { return "uverbs" + strconv.Itoa(int(d.n)) }

func (d *verbsDevice) node() node { return verbsNode(d.n) }

func (m *machine) behind(path string) string { return filepath.Join(m.tree, path) }

// ownNetlink is the fabric's netlink, but for the devices of other machines, and for the
// nodes, which are the sandbox's.
type ownNetlink struct {
	netlinkrdma.Kernel
	m *machine
}

// Execute implements netlinkrdma.Kernel.
func (k ownNetlink) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if index, ok := deviceIndex(req.Attrs); ok && k.m.indexed(index) == nil {
		return nil, syscall.EINVAL
	}
	switch req.Op {
	case abi.RDMA_NLDEV_CMD_GET_CHARDEV:
		return k.m.charDevice(req)
	case abi.RDMA_NLDEV_CMD_DELLINK: // of a device that was not removed
		return nil, syscall.EINVAL
	}
	replies, err := k.Kernel.Execute(req)
	return slices.DeleteFunc(replies, func(b []byte) bool {
		index, ok := deviceIndex(attributes(b))
		return ok && k.m.indexed(index) == nil
	}), err
}

func deviceIndex(attrs []netlinkrdma.Attr) (uint32, bool) {
	for _, a := range attrs {
		if a.Type == abi.RDMA_NLDEV_ATTR_DEV_INDEX && len(a.Value) == 4 {
			return binary.NativeEndian.Uint32(a.Value), true
		}
	}
	return 0, false
}

func (m *machine) charDevice(req netlinkrdma.Request) ([][]byte, error) {
	for _, a := range req.Attrs {
		if a.Type != abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE {
			continue
		}
		switch string(bytes.TrimRight(a.Value, "\x00")) {
		case "rdma_cm":
			return [][]byte{charDevice("rdma_cm", cmNode, cmABI, 0)}, nil
		case "uverbs":
			index, _ := deviceIndex(req.Attrs)
			if d := m.indexed(index); d != nil {
				return [][]byte{charDevice(d.name(), d.node(), d.char.ABI, d.char.DriverID)}, nil
			}
		}
	}
	return nil, syscall.EOPNOTSUPP
}

const cmABI = 4

// remove begins to remove the device that a request to delete a link names, and returns it, or nil if it does not.
// Linux removes only devices in software so.
func (m *machine) remove(attrs []netlinkrdma.Attr) *verbsDevice {
	index, _ := deviceIndex(attrs)
	d := m.indexed(index)
	if d == nil || d.model.LetsGo() || d.model.IsGone() {
		return nil
	}
	m.unplug(d)
	return d
}

// unplug removes a device and its nodes.
func (m *machine) unplug(d *verbsDevice) {
	d.own.Remove()
	os.Remove(m.behind("/dev/infiniband/" + d.name()))
	os.RemoveAll(m.behind("/sys/class/infiniband_verbs/" + d.name()))
}

// setLink takes the port of a device up or down.
func (m *machine) setLink(d *verbsDevice, up bool) {
	if m.fabric != nil {
		m.fabric.setLink(up)
		return
	}
	d.own.SetLink(up)
	states := portUp
	if !up {
		states = portDown
	}
	for name, text := range states {
		_ = replaceFile(m.behind("/sys/class/infiniband/"+d.Name+"/ports/1/"+name), text+"\n") // unless it was removed
	}
}

// refreshGIDs writes the GID tables of the devices to their files.
func (m *machine) refreshGIDs() {
	for _, d := range m.devices {
		dir := "/sys/class/infiniband/" + d.Name + "/ports/1/"
		gids := d.model.GIDs()
		d.gids = max(d.gids, len(gids))
		for i := range d.gids {
			var gid verbs.GID
			typ := m.behind(fmt.Sprint(dir, "gid_attrs/types/", i))
			if i < len(gids) {
				gid = gids[i]
			}
			// Both fail if the device was removed.
			_ = replaceFile(m.behind(fmt.Sprint(dir, "gids/", i)), gidText(gid)+"\n")
			if gid == (verbs.GID{}) {
				_ = os.Remove(typ)
			} else {
				_ = replaceFile(typ, d.gidType()+"\n")
			}
		}
	}
}

// awaitRemoved waits until a device that is being removed is gone. It returns false if ctx ends before.
func (m *machine) awaitRemoved(ctx context.Context, d *verbsDevice) bool {
	for !d.model.IsGone() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(interval):
		}
	}
	os.RemoveAll(m.behind("/sys/class/infiniband/" + d.Name))
	return true
}

// charDevice returns a reply to GET_CHARDEV. driver is 0 for a device without a driver ID.
func charDevice(name string, is node, version uint64, driver uint32) (b []byte) {
	if driver != 0 {
		b = attribute(b, abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, binary.NativeEndian.AppendUint32(nil, driver))
	}
	number := uint64(is.minor)&0xff | uint64(is.major)<<8 | uint64(is.minor)&^0xff<<12 // huge_encode_dev
	b = attribute(b, abi.RDMA_NLDEV_ATTR_CHARDEV, binary.NativeEndian.AppendUint64(nil, number))
	b = attribute(b, abi.RDMA_NLDEV_ATTR_CHARDEV_ABI, binary.NativeEndian.AppendUint64(nil, version))
	return attribute(b, abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, append([]byte(name), 0))
}

// newFabric creates the requested devices: one on each host, or those of a profile, which may be nil.
func newFabric(o options, p *profile) (kernel.Kernel, *rdmatest.Fabric) {
	f := rdmatest.Options{InOrder: o.record != "", Seed: uint64(o.seed)}
	for i := range o.hosts {
		devices := []profileDevice{{kind: o.kind, name: deviceName(models[o.kind], i)}}
		if p != nil {
			devices = p.devices
		}
		var h rdmatest.HostOptions
		for j, d := range devices {
			addr := netip.AddrFrom4([4]byte{198, 51, byte(100 + j), byte(i + 1)})
			if o.wire != nil {
				addr = o.wire[i]
			}
			h.Devices = append(h.Devices, rdmatest.DeviceOptions{Kind: models[d.kind], Name: d.name, InfiniBand: d.kind == "mlx5-ib", RoCE: d.kind == "erdma-roce",
				Addrs: []netip.Addr{addr}})
		}
		f.Hosts = append(f.Hosts, h)
	}
	return newNetwork(&f)
}

// newNetwork creates a network. Package uverbs finds its devices as those of a registered kernel, as does the
// supervisor.
func newNetwork(o *rdmatest.Options) (kernel.Kernel, *rdmatest.Fabric) {
	fabric := rdmatest.NewWith(witness{}, o)
	all := kernel.Registered()
	return all[len(all)-1], fabric
}

var models = map[string]rdmatest.Kind{"rxe": rdmatest.RXE, "siw": rdmatest.SIW, "erdma": rdmatest.ERDMA, "erdma-old": rdmatest.ERDMA, "erdma-roce": rdmatest.ERDMA,
	"mlx5": rdmatest.MLX5, "mlx5-ib": rdmatest.MLX5, "mlx5-old": rdmatest.MLX5, "efa": rdmatest.EFA, "efa-old": rdmatest.EFA}

// deviceName returns the name that udev or the driver gives the i-th device of a kind.
func deviceName(kind rdmatest.Kind, i int) string {
	name := kind.String()
	if kind == rdmatest.MLX5 || kind == rdmatest.EFA {
		name += "_"
	}
	return name + strconv.Itoa(i)
}

// witness replaces a test: messages of a fabric go to standard error.
type witness struct{}

func (witness) Helper()        {}
func (witness) Cleanup(func()) {} // all ends with the process
func (witness) Errorf(format string, args ...any) {
	(&cli.Output{Stderr: os.Stderr}).Note("sandbox: "+format, args...)
}
