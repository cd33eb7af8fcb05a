package uverbs

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// addressHandle is the object behind a verbs.AH.
type addressHandle struct {
	object
	pd        *PD
	handle    uint32
	setClosed func(bool) // marks the verbs.AH, which work requests may still name
	made      bool       // the kernel has an object for it
	data      any
	memory    *memory
}

// CreateAH creates an address handle. On RoCE the address must be Global.
//
// C: ibv_create_ah
func (pd *PD) CreateAH(attr *verbs.AHAttr) (*verbs.AH, error) {
	dev := pd.dev
	if dev.provider == nil {
		return nil, dev.noProvider("create", "AH")
	}
	if attr == nil {
		return nil, &Error{Op: "create", Object: "AH", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "no address"}
	}
	if why := addressTooWide(attr); why != "" {
		return nil, &Error{Op: "create", Object: "AH", Device: dev.info.Name, Err: syscall.EINVAL, Hint: why}
	}
	h := &addressHandle{pd: pd}
	if err := h.attach("AH", &pd.object); err != nil {
		return nil, err
	}
	if err := h.create(attr); err != nil {
		h.detach()
		return nil, h.fail("create", err, ahHint(err, attr))
	}
	if h.made {
		h.setNumber(h.handle)
	}
	ah, setClosed := verbs.NewAH(h.data, h.Close)
	h.setClosed = setClosed
	return ah, nil
}

func (h *addressHandle) create(attr *verbs.AHAttr) error {
	dev := h.pd.dev
	creator, ok := dev.provider.(driver.AHCreator)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := dev.creation(func(u driver.UHW, extra []driver.Attr) error { return h.issueCreate(attr, u, extra) })
	data, err := creator.CreateAH(&driver.CreateAH{Call: c, Attr: *attr, PD: h.pd.data})
	h.data, h.memory, h.made = data, c.memory, c.done
	if err == nil && !c.done {
		return nil // the handle exists only in user space
	}
	return c.made(err, h.issueDestroy)
}

func (h *addressHandle) issueCreate(attr *verbs.AHAttr, u driver.UHW, extra []driver.Attr) error {
	var resp abi.IbUverbsCreateAhResp
	in := &abi.IbUverbsCreateAh{PdHandle: h.pd.handle, Attr: ahToABI(attr)}
	r := writeCommand(h.pd.dev, abi.IB_USER_VERBS_CMD_CREATE_AH, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := h.pd.dev.doWith(r, u, extra); err != nil {
		return err
	}
	h.handle = resp.AhHandle
	return nil
}

// Close implements [verbs.AH.Close].
func (h *addressHandle) Close() error {
	return h.close(func() error {
		h.setClosed(true)
		err := destroy(h.data, h.issueDestroy)
		h.setClosed(err == nil)
		return err
	}, h.memory.free)
}

func (h *addressHandle) issueDestroy() error {
	if !h.made {
		return nil
	}
	r := h.pd.dev.request(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_AH_HANDLE, h.handle)
	return r.Do(h.pd.dev.file)
}

func ahHint(err error, attr *verbs.AHAttr) string {
	switch {
	case unreachable(err):
		return noRouteHint
	case errors.Is(err, errNoData):
		return emptySlotHint
	case !errors.Is(err, syscall.EINVAL):
		return createHint(err)
	case !attr.Global:
		return "RoCE needs a Global address, with DGID and SGIDIndex"
	}
	return "no such port, or " + emptySlotHint + ", of DGID's family"
}

const emptySlotHint = "no such GID: SGIDIndex must be a used slot of the port's GID table (Device.ChooseGID)"

func pathToABI(a *verbs.AHAttr) abi.IbUverbsQpDest {
	return abi.IbUverbsQpDest{
		Dgid: a.DGID, FlowLabel: a.FlowLabel, Dlid: a.DLID, SgidIndex: uint8(a.SGIDIndex), HopLimit: a.HopLimit,
		TrafficClass: a.TrafficClass, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: uint8(a.StaticRate),
		IsGlobal: boolByte(a.Global), PortNum: uint8(a.Port),
	}
}

func ahFromABI(d *abi.IbUverbsQpDest) verbs.AHAttr {
	return verbs.AHAttr{
		DGID: d.Dgid, FlowLabel: d.FlowLabel, DLID: d.Dlid, SGIDIndex: uint32(d.SgidIndex), HopLimit: d.HopLimit,
		TrafficClass: d.TrafficClass, SL: d.Sl, SrcPathBits: d.SrcPathBits, StaticRate: verbs.Rate(d.StaticRate),
		Global: d.IsGlobal != 0, Port: uint32(d.PortNum),
	}
}

func ahToABI(a *verbs.AHAttr) abi.IbUverbsAhAttr {
	return abi.IbUverbsAhAttr{
		Grh: abi.IbUverbsGlobalRoute{Dgid: a.DGID, FlowLabel: a.FlowLabel, SgidIndex: uint8(a.SGIDIndex),
			HopLimit: a.HopLimit, TrafficClass: a.TrafficClass},
		Dlid: a.DLID, Sl: a.SL, SrcPathBits: a.SrcPathBits, StaticRate: uint8(a.StaticRate),
		IsGlobal: boolByte(a.Global), PortNum: uint8(a.Port),
	}
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// AHFromWC creates an address handle for the sender of a message that a UD QP received
// through port. Ports count from 1. wc is the completion, and grh is the first 40 bytes of the
// receive buffer. Send answers to wc.SrcQP. AHFromWC makes three system calls, so keep one
// handle for each peer instead of creating one for each message.
//
// C: ibv_create_ah_from_wc
func (pd *PD) AHFromWC(port uint32, wc *verbs.WC, grh []byte) (*verbs.AH, error) {
	attr, err := pd.dev.AHAttrFromWC(port, wc, grh)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(attr)
}

// AHAttrFromWC returns the address that [PD.AHFromWC] uses. SGIDIndex is the slot of the GID
// that the message was sent to. Flow label, traffic class and hop limit are those of the
// message. A message to a multicast group is refused, because it was not sent to a GID of
// the port. Use [ParseGRH] for its sender, and [Device.ChooseGID] for a GID to answer from.
//
// C: ibv_init_ah_from_wc
func (d *Device) AHAttrFromWC(port uint32, wc *verbs.WC, grh []byte) (*verbs.AHAttr, error) {
	const op = "find the sender of a message to"
	if wc == nil || wc.Status != verbs.StatusSuccess {
		return nil, d.fail(op, syscall.EINVAL, "only a successful completion names the sender")
	}
	attr := &verbs.AHAttr{DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits, Port: port}
	if wc.Flags&verbs.WCGRH == 0 {
		return d.localAddress(attr, port)
	}
	g, why := parseGRH(grh)
	if why == "" {
		why = g.unanswerable()
	}
	if why != "" {
		return nil, d.fail(op, syscall.EINVAL, why)
	}
	index, err := d.findGID(port, &g)
	if err != nil {
		return nil, err
	}
	attr.Global, attr.DGID, attr.SGIDIndex = true, g.SGID, index
	attr.FlowLabel, attr.TrafficClass, attr.HopLimit = g.FlowLabel, g.TrafficClass, g.HopLimit
	return attr, nil
}

// localAddress returns attr if the port can be addressed by LID, without a GRH. Only
// InfiniBand has LIDs.
func (d *Device) localAddress(attr *verbs.AHAttr, port uint32) (*verbs.AHAttr, error) {
	p, err := d.QueryPort(port)
	if err != nil {
		return nil, err
	}
	if p.LinkLayer == verbs.LinkEthernet || p.GRHRequired {
		return nil, d.fail("find the sender of a message to", syscall.EINVAL, "the completion has no WCGRH flag, and RoCE needs the GRH to name the sender: is it the completion of a receive?")
	}
	return attr, nil
}

func (g *GRH) unanswerable() string {
	switch {
	case g.DGID.IsMulticast():
		return fmt.Sprintf("it was sent to multicast group %v, which can't be the source of an answer: make the address with ParseGRH and ChooseGID", g.DGID)
	case g.SGID.IsMulticast() || g.SGID.Addr().IsUnspecified():
		return fmt.Sprintf("its source address %v is not a unicast address", g.SGID)
	}
	return ""
}

// findGID returns the slot of the port's GID table that a message was sent to.
func (d *Device) findGID(port uint32, g *GRH) (uint32, error) {
	table, err := d.GIDTable()
	if err != nil {
		return 0, err
	}
	for i := range table {
		e := &table[i]
		if e.Port == port && e.GID == g.DGID && (e.Type == verbs.GIDTypeRoCEv2) == (g.Type == verbs.GIDTypeRoCEv2) && e.Index <= math.MaxUint8 {
			return e.Index, nil
		}
	}
	return 0, d.fail("find the sender of a message to", verbs.ErrNoGID, fmt.Sprintf("it was sent to %v, which is not, or no longer, a GID of port %d", g.DGID.Addr(), port))
}
