package hosttest

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/addlink"
)

// Netdevs is the network side of a machine. Log holds the changes.
type Netdevs struct {
	All  []addlink.Netdev
	Fail map[string]error // of the calls whose line in log begins so
	Log  []string
}

func (f *Netdevs) List() ([]addlink.Netdev, error) { return slices.Clone(f.All), nil }

// change does one change of the device, unless it is to fail.
func (f *Netdevs) change(line, name string, do func(*addlink.Netdev)) error {
	f.Log = append(f.Log, line)
	for begin, err := range f.Fail {
		if strings.HasPrefix(line, begin) {
			return err
		}
	}
	i := slices.IndexFunc(f.All, func(d addlink.Netdev) bool { return d.Name == name })
	if i < 0 {
		return syscall.ENODEV
	}
	do(&f.All[i])
	return nil
}

func (f *Netdevs) SetMAC(name string, mac net.HardwareAddr) error {
	if len(mac) != 6 || mac[0] != 2 || bytes.Equal(mac[1:], make([]byte, 5)) {
		return syscall.EADDRNOTAVAIL
	}
	return f.change("mac "+name, name, func(d *addlink.Netdev) { d.MAC = mac })
}

func (f *Netdevs) SetUp(name string) error {
	return f.change("up "+name, name, func(d *addlink.Netdev) { d.Up = true })
}

func (f *Netdevs) SetDown(name string) error {
	return f.change("down "+name, name, func(d *addlink.Netdev) { d.Up = false })
}

func (f *Netdevs) AddAddr(name string, addr netip.Prefix) error {
	return f.change("addr "+name+" "+addr.String(), name, func(d *addlink.Netdev) {
		d.Addrs = append(slices.Clone(d.Addrs), addr.Addr())
	})
}

func (f *Netdevs) DelAddr(name string, addr netip.Prefix) error {
	return f.change("addr del "+name+" "+addr.String(), name, func(d *addlink.Netdev) {
		d.Addrs = slices.DeleteFunc(slices.Clone(d.Addrs), func(a netip.Addr) bool { return a == addr.Addr() })
	})
}

var (
	MAC      = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	Loopback = addlink.Netdev{Name: "lo", Loopback: true, Up: true, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}}
	Dummy0   = addlink.Netdev{Name: "dummy0", MAC: MAC, Up: true, Addrs: []netip.Addr{netip.MustParseAddr("10.1.1.1")}}
	bare     = addlink.Netdev{Name: "bare", MAC: MAC}
	VLAN5    = addlink.Netdev{Name: "vlan5", MAC: MAC, Up: true, Addrs: Dummy0.Addrs}
)
