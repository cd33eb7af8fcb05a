package sandbox

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/rdmatest"
)

// hostNumber returns the number of the host, by default the first.
func hostNumber(value string, hosts int) int {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > hosts {
		return 1
	}
	return n
}

// machine is a host with its device, as its processes see it.
type machine struct {
	kernel.Kernel
	addr    netip.Addr
	netlink netlinkrdma.Kernel
	tree    string
	nodes   map[string]node // by path
	device  verbsDevice
	fabric  *fabricHost       // of a host of --fabric, which has no device
	opened  *fakeverbs.Kernel // by whichever program; the supervisor's lock guards it
}

// verbsDevice is a device and its node.
type verbsDevice struct {
	netlinkrdma.Device
	char netlinkrdma.CharDev // as on the host
	n    uint32              // uverbsN
}

// newMachine shows the n-th device of a kernel.
func newMachine(k kernel.Kernel, n int, addr netip.Addr, dir string) (*machine, error) {
	m := &machine{Kernel: k, addr: addr, tree: dir}
	m.netlink = ownNetlink{k.Netlink(), m}
	c := netlinkrdma.Client{Kernel: k.Netlink()}
	devices, err := c.Devices()
	if err != nil {
		return nil, err
	}
	char, err := c.UverbsCharDev(devices[n].Index)
	if err != nil {
		return nil, err
	}
	m.device = verbsDevice{devices[n], char, uint32(n)}
	m.nodes = map[string]node{"/dev/infiniband/rdma_cm": cmNode, "/dev/infiniband/" + m.device.name(): m.device.node()}
	return m, m.plant()
}

func (d verbsDevice) name() string { return "uverbs" + strconv.Itoa(int(d.n)) }

func (d verbsDevice) node() node { return verbsNode(d.n) }

func (m *machine) behind(path string) string { return filepath.Join(m.tree, path) }

// ownNetlink is the fabric's netlink, but for the devices of other machines, and for the
// nodes, which are the sandbox's.
type ownNetlink struct {
	netlinkrdma.Kernel
	m *machine
}

// Execute implements netlinkrdma.Kernel.
func (k ownNetlink) Execute(req netlinkrdma.Request) ([][]byte, error) {
	if index, ok := deviceIndex(req.Attrs); ok && index != k.m.device.Index {
		return nil, syscall.EINVAL
	}
	if req.Op == abi.RDMA_NLDEV_CMD_GET_CHARDEV {
		return k.m.charDevice(req)
	}
	replies, err := k.Kernel.Execute(req)
	return slices.DeleteFunc(replies, func(b []byte) bool {
		index, ok := deviceIndex(attributes(b))
		return ok && index != k.m.device.Index
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
			return [][]byte{charDevice(m.device.name(), m.device.node(), m.device.char.ABI, m.device.char.DriverID)}, nil
		}
	}
	return nil, syscall.EOPNOTSUPP
}

const cmABI = 4

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

// newFabric creates the requested devices, one on each host. Package uverbs finds them
// as registered kernels, as does the supervisor.
func newFabric(o options) (kernel.Kernel, []netip.Addr) {
	f := rdmatest.Options{}
	var addrs []netip.Addr
	for i := range o.hosts {
		a := netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})
		addrs = append(addrs, a)
		f.Hosts = append(f.Hosts, rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{
			{Kind: models[o.kind], Name: deviceName(models[o.kind], i), InfiniBand: o.kind == "mlx5-ib", RoCE: o.kind == "erdma-roce", Addrs: []netip.Addr{a}}}})
	}
	rdmatest.NewWith(witness{}, &f)
	all := kernel.Registered()
	return all[len(all)-1], addrs
}

var models = map[string]rdmatest.Kind{"rxe": rdmatest.RXE, "siw": rdmatest.SIW, "erdma": rdmatest.ERDMA, "erdma-old": rdmatest.ERDMA, "erdma-roce": rdmatest.ERDMA,
	"mlx5": rdmatest.MLX5, "mlx5-ib": rdmatest.MLX5, "mlx5-old": rdmatest.MLX5}

// deviceName returns the name that udev or the driver gives the i-th device of a kind.
func deviceName(kind rdmatest.Kind, i int) string {
	name := kind.String()
	if kind == rdmatest.MLX5 {
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
