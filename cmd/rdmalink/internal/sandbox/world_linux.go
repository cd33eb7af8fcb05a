package sandbox

import (
	"net/netip"
	"os"
	"strconv"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/cli"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/rdmatest"
)

// newFabric creates the requested devices, one on each host. Package uverbs finds them
// as registered kernels, as does the supervisor.
func newFabric(o options) (kernel.Kernel, []netip.Addr) {
	f := rdmatest.Options{}
	var addrs []netip.Addr
	for i := range o.hosts {
		a := netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})
		addrs = append(addrs, a)
		f.Hosts = append(f.Hosts, rdmatest.HostOptions{Devices: []rdmatest.DeviceOptions{
			{Kind: models[o.kind], Name: deviceName(models[o.kind], i), InfiniBand: o.kind == "mlx5-ib", Addrs: []netip.Addr{a}}}})
	}
	rdmatest.NewWith(witness{}, &f)
	all := kernel.Registered()
	return all[len(all)-1], addrs
}

var models = map[string]rdmatest.Kind{"rxe": rdmatest.RXE, "siw": rdmatest.SIW, "erdma": rdmatest.ERDMA,
	"mlx5": rdmatest.MLX5, "mlx5-ib": rdmatest.MLX5, "mlx5-old": rdmatest.MLX5}

// deviceName is as udev or the driver names the i-th device of a kind.
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
