package mlx5

import (
	"fmt"
	"math/rand/v2"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/verbs"
)

// ah is an address in the form that datagrams carry. Each request adds the peer's QP and
// Q_Key.
type ah struct {
	av [3]segment
}

// put writes the address with the first word, which has the peer's key, and the number of its QP.
func (to *ah) put(av *[3]segment, key uint64, num uint32) {
	av[0] = segment{key, to.av[0][1] | words(num&cqeNumberMask|extendedAV, 0)}
	av[1], av[2] = to.av[1], to.av[2]
}

const (
	grhBit       = 1 << 30
	flowBits     = 0xfffff
	firstUDPPort = 0xc000
	udpPortBits  = 0x3fff
)

// CreateAH creates the address in user space. On Ethernet it gets the MAC from the kernel;
// the kernel keeps a handle for it.
func (c *mlx5Context) CreateAH(r *driver.CreateAH) (any, error) {
	ethernet, err := c.ethernet(r.Attr.Port)
	if err != nil {
		return nil, err
	}
	if ethernet {
		return c.ethernetAH(r)
	}
	a := &r.Attr
	first := rate(a.StaticRate)<<28 | uint32(a.SL&0xf)<<24 | uint32(a.SrcPathBits&0x7f)<<16 | uint32(a.DLID)
	to := &ah{}
	to.av[0][1] = words(0, first)
	if a.Global {
		to.global(a, grhBit, [6]uint8{})
	}
	return to, nil
}

// ethernetAH creates an address for RoCE. The SL is stored as the VLAN priority, and the
// UDP source port in place of the LID.
func (c *mlx5Context) ethernetAH(r *driver.CreateAH) (any, error) {
	a := &r.Attr
	if c.limits.CmdsSuppUhw&abi.MLX5_USER_CMDS_SUPP_UHW_CREATE_AH == 0 {
		return nil, fmt.Errorf("%w: this kernel does not report the MAC of a RoCE address", verbs.ErrNotSupported)
	}
	source, err := c.device.GID(a.Port, a.SGIDIndex)
	if err != nil {
		return nil, err
	}
	var resp abi.Mlx5IbCreateAhResp
	if err := r.Do(driver.UHW{Out: abi.Bytes(&resp)}); err != nil {
		return nil, err
	}
	first := rate(a.StaticRate)<<28 | uint32(a.SL&0x7)<<25
	if source.Type == verbs.GIDTypeRoCEv2 {
		first |= udpPort(a.FlowLabel)
	}
	to := &ah{}
	to.av[0][1] = words(0, first)
	to.global(a, 0, resp.Dmac)
	return to, nil
}

// global fills in the fields of a global address.
func (to *ah) global(a *verbs.AHAttr, grh uint32, mac [6]uint8) {
	last := uint32(mac[4])<<24 | uint32(mac[5])<<16 | uint32(a.TrafficClass)<<8 | uint32(a.HopLimit)
	to.av[1] = segment{
		words(0, uint32(mac[0])<<24|uint32(mac[1])<<16|uint32(mac[2])<<8|uint32(mac[3])),
		words(last, grh|(a.SGIDIndex&0xff)<<20|a.FlowLabel&flowBits),
	}
	copy(abi.Bytes(&to.av[2]), a.DGID[:])
}

// udpPort is the source port of RoCE v2 packets. A flow label always gives the same port,
// so that a flow keeps its path. Without a label the port is random.
func udpPort(label uint32) uint32 {
	if label &= flowBits; label == 0 {
		return firstUDPPort | rand.Uint32()&udpPortBits
	}
	return uint32(verbs.FlowLabelUDPPort(label))
}

// rates maps the verbs' limits of rate to the device's numbers. A limit that the device
// lacks maps to another one near it. 0 means no limit.
var rates = [...]uint8{2: 7, 8, 9, 10, 11, 12, 13, 14, 15, 11: 11, 12: 13, 13: 15, 15: 9, 16: 15, 19: 9, 20: 13}

func rate(static verbs.Rate) uint32 {
	if int(static) < len(rates) {
		return uint32(rates[static])
	}
	return 0
}
