package hosttest

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/cmd/rdmalink/internal/host"
)

// Netdevs is the network side of a machine. Log holds the changes.
type Netdevs struct {
	All  []host.Netdev
	Fail map[string]error // of the calls whose line in log begins so
	Log  []string
}

func (f *Netdevs) List() ([]host.Netdev, error) { return slices.Clone(f.All), nil }

// change does one change of the device, unless it is to fail.
func (f *Netdevs) change(line, name string, do func(*host.Netdev)) error {
	f.Log = append(f.Log, line)
	for begin, err := range f.Fail {
		if strings.HasPrefix(line, begin) {
			return err
		}
	}
	i := slices.IndexFunc(f.All, func(d host.Netdev) bool { return d.Name == name })
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
	return f.change("mac "+name, name, func(d *host.Netdev) { d.HasMAC = true })
}

func (f *Netdevs) SetUp(name string) error {
	return f.change("up "+name, name, func(d *host.Netdev) { d.Up = true })
}

func (f *Netdevs) SetDown(name string) error {
	return f.change("down "+name, name, func(d *host.Netdev) { d.Up = false })
}

func (f *Netdevs) AddAddr(name string, addr netip.Prefix) error {
	return f.change("addr "+name+" "+addr.String(), name, func(d *host.Netdev) {
		d.Addrs = append(slices.Clone(d.Addrs), addr.Addr())
	})
}

func (f *Netdevs) DelAddr(name string, addr netip.Prefix) error {
	return f.change("addr del "+name+" "+addr.String(), name, func(d *host.Netdev) {
		d.Addrs = slices.DeleteFunc(slices.Clone(d.Addrs), func(a netip.Addr) bool { return a == addr.Addr() })
	})
}

var (
	Loopback = host.Netdev{Name: "lo", Loopback: true, Up: true, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}}
	Dummy0   = host.Netdev{Name: "dummy0", HasMAC: true, Up: true, Addrs: []netip.Addr{netip.MustParseAddr("10.1.1.1")}}
	bare     = host.Netdev{Name: "bare", HasMAC: true}
	VLAN5    = host.Netdev{Name: "vlan5", HasMAC: true, Up: true, VLAN: true, Addrs: Dummy0.Addrs}
)
