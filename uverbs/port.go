package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// PortAttr is the state of a port.
//
// C: struct ibv_port_attr
type PortAttr struct {
	State                     netlinkrdma.PortState
	PhysState                 netlinkrdma.PhysState
	LinkLayer                 LinkLayer
	MaxMTU, ActiveMTU         MTU
	MaxMsgSize                uint32 // bytes
	GIDTableLen, PKeyTableLen uint32
	ActiveWidth               uint8  // IB encoding: 1, 2, 4, 8, 16 for 1x, 4x, 8x, 12x, 2x
	ActiveSpeed               uint32 // IB encoding
	CapFlags                  uint32
	CapFlags2                 uint16
	LID, SMLID                uint16
	LMC, MaxVLNum, SMSL       uint8
	SubnetTimeout             uint8
	InitTypeReply             uint8
	BadPKeyCounter            uint32
	QKeyViolationCounter      uint32
	GRHRequired               bool // addresses need a GID, as on RoCE
}

// LinkLayer is what a port's packets travel on.
type LinkLayer uint8

// A port without a say is InfiniBand.
const (
	LinkUnspecified LinkLayer = 0
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

func (l LinkLayer) String() string {
	switch l {
	case LinkUnspecified, LinkInfiniBand:
		return "InfiniBand"
	case LinkEthernet:
		return "Ethernet"
	}
	return fmt.Sprintf("LinkLayer(%d)", uint8(l))
}

// QueryPort asks the kernel about a port, counted from 1.
//
// C: ibv_query_port
func (d *Device) QueryPort(port uint32) (*PortAttr, error) {
	var resp abi.IbUverbsQueryPortRespEx
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM, uint64(port))
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_PORT_RESP, &resp)
	if err := r.Do(d.file); err != nil {
		return nil, d.fail(fmt.Sprintf("query port %d of", port), err, portHint(err))
	}
	return newPortAttr(&resp), nil
}

func portHint(err error) string {
	if errors.Is(err, syscall.ENODEV) {
		return "its network device is gone: close the device"
	}
	return "ports count from 1"
}

func newPortAttr(resp *abi.IbUverbsQueryPortRespEx) *PortAttr {
	p := &resp.LegacyResp
	a := &PortAttr{
		State: netlinkrdma.PortState(p.State), PhysState: netlinkrdma.PhysState(p.PhysState),
		LinkLayer: LinkLayer(p.LinkLayer), MaxMTU: MTU(p.MaxMtu), ActiveMTU: MTU(p.ActiveMtu),
		MaxMsgSize: p.MaxMsgSz, GIDTableLen: p.GidTblLen, PKeyTableLen: uint32(p.PkeyTblLen),
		ActiveWidth: p.ActiveWidth, ActiveSpeed: uint32(p.ActiveSpeed),
		CapFlags: p.PortCapFlags, CapFlags2: resp.PortCapFlags2, LID: p.Lid, SMLID: p.SmLid,
		LMC: p.Lmc, MaxVLNum: p.MaxVlNum, SMSL: p.SmSl, SubnetTimeout: p.SubnetTimeout,
		InitTypeReply: p.InitTypeReply, BadPKeyCounter: p.BadPkeyCntr, QKeyViolationCounter: p.QkeyViolCntr,
		GRHRequired: p.Flags&abi.IB_UVERBS_QPF_GRH_REQUIRED != 0,
	}
	if resp.ActiveSpeedEx != 0 { // since 6.12; the old field has no room for newer speeds
		a.ActiveSpeed = resp.ActiveSpeedEx
	}
	return a
}
