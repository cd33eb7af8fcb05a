package uverbs

import (
	"math/bits"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// Query asks the kernel what the device can do.
//
// C: ibv_query_device_ex
func (d *Device) Query() (*verbs.DeviceAttr, error) { return d.query(nil) }

// query has room for the driver's own bytes in out.
func (d *Device) query(out []byte) (*verbs.DeviceAttr, error) {
	var resp abi.IbUverbsExQueryDeviceResp
	r := writeCommand(d, ioctl.Extended(abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE), &abi.IbUverbsExQueryDevice{})
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	r.Driver(nil, out)
	if err := r.Do(d.file); err != nil {
		return nil, d.fail("query", err, "")
	}
	return newDeviceAttr(&resp), nil
}

// Attr is a copy of what the first Query told. Most of it never changes, and to ask
// again is a system call.
//
// C: what verbs_context keeps for its providers and librdmacm
func (d *Device) Attr() (*verbs.DeviceAttr, error) {
	a := d.attr.Load()
	if a == nil {
		var err error
		if a, err = d.Query(); err != nil {
			return nil, err
		}
		d.attr.Store(a)
	}
	mine := *a // has no slices or pointers
	return &mine, nil
}

func newDeviceAttr(resp *abi.IbUverbsExQueryDeviceResp) *verbs.DeviceAttr {
	b := &resp.Base
	a := &verbs.DeviceAttr{
		FWVer: b.FwVer, NodeGUID: guidFromBE(b.NodeGuid), SysImageGUID: guidFromBE(b.SysImageGuid),
		MaxMRSize: b.MaxMrSize, PageSizeCap: b.PageSizeCap,
		VendorID: b.VendorId, VendorPartID: b.VendorPartId, HWVer: b.HwVer,
		CapFlags: verbs.DeviceCap(b.DeviceCapFlags) | verbs.DeviceCap(resp.DeviceCapFlagsEx),
		MaxQP:    b.MaxQp, MaxQPWR: b.MaxQpWr, MaxSGE: b.MaxSge, MaxSGERead: b.MaxSgeRd,
		MaxCQ: b.MaxCq, MaxCQE: b.MaxCqe, MaxMR: b.MaxMr, MaxPD: b.MaxPd, MaxMW: b.MaxMw, MaxAH: b.MaxAh,
		MaxQPRDAtom: b.MaxQpRdAtom, MaxResRDAtom: b.MaxResRdAtom, MaxQPInitRDAtom: b.MaxQpInitRdAtom,
		AtomicCap: verbs.AtomicCap(b.AtomicCap), MaxMcastGrp: b.MaxMcastGrp, MaxMcastQPAttach: b.MaxMcastQpAttach,
		MaxTotalMcastQPAttach: b.MaxTotalMcastQpAttach,
		MaxSRQ:                b.MaxSrq, MaxSRQWR: b.MaxSrqWr, MaxSRQSGE: b.MaxSrqSge,
		MaxPKeys: b.MaxPkeys, LocalCAAckDelay: b.LocalCaAckDelay, PhysPortCnt: b.PhysPortCnt,
		TimestampMask: resp.TimestampMask, HCACoreClock: resp.HcaCoreClock, MaxDMSize: resp.MaxDmSize,
		ODP: newODPCaps(resp),
	}
	a.CQModerationMaxCount = resp.CqModerationCaps.MaxCqModerationCount
	a.CQModerationMaxPeriod = resp.CqModerationCaps.MaxCqModerationPeriod
	a.RSS = verbs.RSSCaps{
		SupportedQPTypes: resp.RssCaps.SupportedQpts, MaxIndirectionTables: resp.RssCaps.MaxRwqIndirectionTables,
		MaxIndirectionTableSize: resp.RssCaps.MaxRwqIndirectionTableSize,
	}
	a.MaxWQTypeRQ, a.RawPacketCaps = resp.MaxWqTypeRq, resp.RawPacketCaps
	a.TagMatching = verbs.TagMatchingCaps{
		MaxRndvHdrSize: resp.TmCaps.MaxRndvHdrSize, MaxTags: resp.TmCaps.MaxNumTags, Flags: resp.TmCaps.Flags,
		MaxOps: resp.TmCaps.MaxOps, MaxSGE: resp.TmCaps.MaxSge,
	}
	return a
}

// guidFromBE turns a GUID as the kernel stores it, most significant byte first,
// into a number. Both platforms are little-endian.
func guidFromBE(v uint64) verbs.GUID { return verbs.GUID(bits.ReverseBytes64(v)) }

func newODPCaps(resp *abi.IbUverbsExQueryDeviceResp) verbs.ODPCaps {
	c := &resp.OdpCaps.PerTransportCaps
	return verbs.ODPCaps{
		General: verbs.ODPGeneral(resp.OdpCaps.GeneralCaps),
		RC:      verbs.ODPTransport(c.RcOdpCaps), UC: verbs.ODPTransport(c.UcOdpCaps), UD: verbs.ODPTransport(c.UdOdpCaps),
		XRC: verbs.ODPTransport(resp.XrcOdpCaps),
	}
}
