package uverbs

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// QueryPort asks the kernel about a port, counted from 1.
//
// C: ibv_query_port
func (d *Device) QueryPort(port uint32) (*verbs.PortAttr, error) {
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

func newPortAttr(resp *abi.IbUverbsQueryPortRespEx) *verbs.PortAttr {
	p := &resp.LegacyResp
	a := &verbs.PortAttr{
		State: verbs.PortState(p.State), PhysState: verbs.PhysState(p.PhysState),
		LinkLayer: verbs.LinkLayer(p.LinkLayer), MaxMTU: verbs.MTU(p.MaxMtu), ActiveMTU: verbs.MTU(p.ActiveMtu),
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
