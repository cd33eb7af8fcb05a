package hosttest

import (
	"io/fs"
	"strings"
	"syscall"
	"testing/fstest"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/internal/kernel"
	"github.com/goverbs/goverbs/netlinkrdma"
	"github.com/goverbs/goverbs/netlinkrdma/nltest"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Machine has netdevs lo, dummy0, bare and vlan5, and device siw0 on dummy0.
func Machine() (host.Machine, *nltest.Kernel, *Netdevs) {
	kernel := &nltest.Kernel{Netdevs: []string{"lo", "dummy0", "bare", "vlan5"}, Types: []string{"siw", "rxe"}}
	nets := &Netdevs{All: []host.Netdev{Loopback, Dummy0, bare, VLAN5}}
	m := host.Machine{RDMA: &netlinkrdma.Client{Kernel: kernel}, Net: nets, Route: new(Rtnetlink).Route}
	if err := m.RDMA.AddLink("siw0", "siw", "dummy0"); err != nil {
		panic(err) // only a change of the fake above can do that
	}
	return m, kernel, nets
}

// Opens makes fake devices of siw and rxe, of these kernels first; others forbid it.
func Opens(kernels ...*fakeverbs.Kernel) func(string) (*uverbs.Device, error) {
	return func(name string) (*uverbs.Device, error) {
		info := uverbs.DeviceInfo{Name: name, Driver: verbs.DriverSIW, ABI: 1, Ports: 1}
		if strings.HasPrefix(name, "rxe") {
			info.Driver, info.ABI = verbs.DriverRXE, 2
		}
		if strings.HasPrefix(name, "mlx4") {
			return nil, &uverbs.Error{Op: "open", Object: "device", Device: name, Err: syscall.EACCES, Hint: "allow it"}
		}
		if len(kernels) > 0 {
			k := kernels[0]
			kernels = kernels[1:]
			return openOn(info, k)
		}
		return openOn(info, fakeverbs.New(uint32(info.Driver)))
	}
}

// Tree makes a tree of files and, after an arrow, links.
func Tree(files map[string]string) host.Tree {
	tree := fstest.MapFS{}
	for name, content := range files {
		to, isLink := strings.CutPrefix(content, "-> ")
		switch {
		case isLink && strings.HasSuffix(name, "/device"): // sysfs's own has more steps
			tree[name] = &fstest.MapFile{Data: []byte("../../../devices/" + to[strings.LastIndex(to, "/")+1:]), Mode: fs.ModeSymlink}
		case isLink:
			tree[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
		default:
			tree[name] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
	}
	return host.Tree{FS: tree}
}

// openOn opens a device on a kernel that stands in for the real one.
func openOn(info uverbs.DeviceInfo, file ioctl.File) (*uverbs.Device, error) {
	info.Node = kernel.Node(file)
	return info.Open()
}
