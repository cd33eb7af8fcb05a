package uverbs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// QueryPort returns the attributes of a port. Ports count from 1.
//
// C: ibv_query_port
func (d *Device) QueryPort(port int) (*verbs.PortAttr, error) {
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
	switch {
	case errors.Is(err, syscall.ENODEV):
		return "its network device is gone: close the device"
	case errors.Is(err, syscall.EIO):
		return "the device has been removed: close it"
	}
	return "ports are numbered from 1"
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

// QueryPortSpeed returns the actual bandwidth of a port in units of 100 Mb/s. Ports count from
// 1. A port of several bonded links has the bandwidth of all of them, so the result may not
// be a product of a width and a speed in [verbs.PortAttr]. It needs Linux 7.2 and support by
// the driver, such as mlx5's. Otherwise the error matches [verbs.ErrNotSupported].
//
// Experimental: may change in any release; see docs/stability.md.
//
// C: ibv_query_port_speed
func (d *Device) QueryPortSpeed(port int) (speed uint64, err error) {
	r := d.request(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT_SPEED)
	defer r.Free()
	r.Const(abi.UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM, uint64(port))
	ioctl.Out(r, abi.UVERBS_ATTR_QUERY_PORT_SPEED_RESP, &speed)
	if err := r.Do(d.file); err != nil {
		hint := d.methodHint(err, "DEVICE", "QUERY_PORT_SPEED")
		if hint == "" {
			hint = portHint(err)
		}
		return 0, d.fail(fmt.Sprintf("query the speed of port %d of", port), err, hint)
	}
	return speed, nil
}

// methodHint explains that a method needs Linux 7.2 and support by the driver, if err says that
// it is not supported.
func (d *Device) methodHint(err error, object, method string) string {
	if !ioctl.Unsupported(err) {
		return ""
	}
	return fmt.Sprintf("method %s of object %s needs Linux 7.2, and driver %v may not support it", method, object, d.info.Driver)
}

// QueryPKey returns an entry of a port's partition key table. It reads sysfs, because the
// kernel has no other interface for it. iWARP has no such table.
//
// C: ibv_query_pkey
func (d *Device) QueryPKey(port int, index uint32) (uint16, error) {
	op := fmt.Sprintf("query P_Key %d of port %d of", index, port)
	attr, err := d.QueryPort(port)
	if err != nil {
		return 0, err
	}
	if index >= attr.PKeyTableLen {
		return 0, d.fail(op, syscall.EINVAL, fmt.Sprintf("the table has %d entries", attr.PKeyTableLen))
	}
	var sys sysfsReader
	text := sys.text("/sys/class/infiniband", d.info.Name, "ports", strconv.Itoa(port),
		filepath.Join("pkeys", strconv.FormatUint(uint64(index), 10)))
	if sys.err != nil {
		return 0, d.fail(op, sys.err, "mount sysfs on /sys")
	}
	key, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 16)
	if err != nil {
		return 0, d.fail(op, err, "")
	}
	return uint16(key), nil
}
