package uverbs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/verbs"
)

// AH is an address handle, the address of a port for work requests of UD and SRD QPs.
//
// C: struct ibv_ah
type AH struct {
	object
	pd     *PD
	handle uint32
	attr   verbs.AHAttr
	closed atomic.Bool // work requests may name a closed AH
	made   bool        // the kernel has an object for it
	data   any         // the provider's
	memory *memory
}

func init() {
	driver.AHData = func(a verbs.AH) any {
		ah, _ := a.(*AH)
		if ah == nil || ah.closed.Load() {
			return nil
		}
		return ah.data
	}
}

// CreateAH creates an address handle. On RoCE the address must be Global.
//
// C: ibv_create_ah
func (pd *PD) CreateAH(attr *verbs.AHAttr) (*AH, error) {
	dev := pd.device()
	if dev.provider == nil {
		return nil, dev.noProvider("create", "AH")
	}
	if attr == nil {
		return nil, &verbs.Error{Op: "create", Object: "AH", Device: dev.info.Name, Err: syscall.EINVAL, Hint: "no address"}
	}
	if why := addressTooWide(attr); why != "" {
		return nil, &verbs.Error{Op: "create", Object: "AH", Device: dev.info.Name, Err: syscall.EINVAL, Hint: why}
	}
	ah := &AH{pd: pd, attr: *attr}
	if err := ah.attach("AH", &pd.object); err != nil {
		return nil, err
	}
	if err := ah.create(); err != nil {
		ah.detach()
		return nil, ah.fail("create", err, dev.ahHint(err, attr))
	}
	if ah.made {
		ah.created(ah, ah.handle)
	} else {
		ah.createdUnnamed(ah)
	}
	return ah, nil
}

func (ah *AH) create() error {
	dev := ah.pd.dev
	creator, ok := dev.provider.(driver.AHCreator)
	if !ok {
		return verbs.ErrNotSupported
	}
	c := dev.creation(func(u driver.UHW, extra []driver.Attr) error { return ah.issueCreate(u, extra) })
	data, err := creator.CreateAH(&driver.CreateAH{Call: c, Attr: ah.attr, PD: ah.pd.data})
	ah.data, ah.memory, ah.made = data, c.memory, c.done
	if err == nil && !c.done {
		return nil // the handle exists only in user space
	}
	return c.made(err, ah.issueDestroy)
}

func (ah *AH) issueCreate(u driver.UHW, extra []driver.Attr) error {
	var resp abi.IbUverbsCreateAhResp
	in := &abi.IbUverbsCreateAh{PdHandle: ah.pd.handle, Attr: ahToABI(&ah.attr)}
	r := writeCommand(ah.pd.dev, abi.IB_USER_VERBS_CMD_CREATE_AH, in)
	defer r.Free()
	ioctl.Out(r, abi.UVERBS_ATTR_CORE_OUT, &resp)
	if err := ah.pd.dev.doWith(r, u, extra); err != nil {
		return err
	}
	ah.handle = resp.AhHandle
	return nil
}

// Attr returns the address.
func (ah *AH) Attr() verbs.AHAttr { return ah.attr }

// Number returns the device's number of the address handle, by which the completions of receives name the
// sender (verbs.WC.SLID). Handles of the same PD and address share a number. ok is false for devices whose
// completions name no handle, which are all but EFA.
//
// C: efadv_query_ah
func (ah *AH) Number() (n uint16, ok bool) {
	if a, isNumbered := ah.data.(driver.NumberedAH); isNumbered {
		return a.AHNumber(), true
	}
	return 0, false
}

// Close destroys the address handle. Work requests that use it must have completed.
//
// C: ibv_destroy_ah
func (ah *AH) Close() error {
	if ah == nil {
		return closeNil("AH")
	}
	return ah.close(func() error {
		ah.closed.Store(true)
		err := ah.destroy()
		ah.closed.Store(err == nil)
		return err
	}, ah.memory.free)
}

// destroy differs from that of other objects, because the provider may keep the kernel's handle for other AHs.
func (ah *AH) destroy() error {
	if d, ok := ah.data.(driver.Destroyer); ok {
		return d.Destroy(ah.issueDestroy)
	}
	return ah.issueDestroy()
}

func (ah *AH) issueDestroy() error {
	if !ah.made {
		return nil
	}
	r := ah.pd.dev.request(abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY)
	defer r.Free()
	r.Handle(abi.UVERBS_ATTR_DESTROY_AH_HANDLE, ah.handle)
	return r.Do(ah.pd.dev.file)
}

func (d *Device) ahHint(err error, attr *verbs.AHAttr) string {
	switch {
	case unreachable(err):
		return noRouteHint
	case errors.Is(err, errNoData):
		return emptySlotHint
	case !errors.Is(err, syscall.EINVAL):
		return createHint(err)
	case !attr.Global:
		return "RoCE needs a Global address, with DGID and SGIDIndex, and so does EFA"
	}
	if why := d.families(attr); why != "" {
		return why
	}
	return "no such port, or " + emptySlotHint + ", of DGID's family"
}

// families explains that the GID at SGIDIndex and DGID are of different address families, or returns "".
func (d *Device) families(a *verbs.AHAttr) string {
	if !a.Global || a.DGID.IsMulticast() {
		return ""
	}
	own, err := d.QueryGID(a.Port, a.SGIDIndex)
	if err != nil {
		return ""
	}
	src, dst := own.GID.Addr(), a.DGID.Addr()
	if src.Is4() == dst.Is4() {
		return ""
	}
	return fmt.Sprintf("DGID is %v, and the GID at SGIDIndex %d is %v: both must be IPv4 or both IPv6 (Device.ChooseGID)", dst, a.SGIDIndex, src)
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
		Global: d.IsGlobal != 0, Port: int(d.PortNum),
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
// receive buffer. Send answers to wc.SrcQPN. AHFromWC makes three system calls, so keep one
// handle for each peer instead of creating one for each message.
//
// C: ibv_create_ah_from_wc
func (pd *PD) AHFromWC(port int, wc *verbs.WC, grh []byte) (*AH, error) {
	attr, err := pd.device().AHAttrFromWC(port, wc, grh)
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
// Several interfaces may have the same link-local address, as a VLAN and the device below it do.
// Neither the completion nor the GRH says which one received the message, so SGIDIndex is then
// the first slot with the GID in the caller's network namespace. A program that knows the
// interface sets SGIDIndex to what ChooseGID returns for the address with its zone.
//
// C: ibv_init_ah_from_wc
func (d *Device) AHAttrFromWC(port int, wc *verbs.WC, grh []byte) (*verbs.AHAttr, error) {
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
func (d *Device) localAddress(attr *verbs.AHAttr, port int) (*verbs.AHAttr, error) {
	if d.info.NodeType == verbs.NodeUnspecified {
		return nil, d.fail("find the sender of a message to", syscall.EINVAL, "a completion of this device names the sender by the number of its AH (WC.SLID and AH.Number), or by its GID (WCExtSourceGID)")
	}
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

// findGID returns the slot of the port's GID table that a message was sent to. If several slots have the GID, it
// prefers those of the caller's network namespace.
func (d *Device) findGID(port int, g *GRH) (uint32, error) {
	table, err := d.GIDTable()
	if err != nil {
		return 0, err
	}
	same := slices.DeleteFunc(table, func(e verbs.GIDEntry) bool {
		return e.Port != port || e.GID != g.DGID || (e.Type == verbs.GIDTypeRoCEv2) != (g.Type == verbs.GIDTypeRoCEv2) || e.Index > math.MaxUint8
	})
	switch len(same) {
	case 0:
		return 0, d.fail("find the sender of a message to", verbs.ErrNoGID, fmt.Sprintf("it was sent to %v, which is not, or no longer, a GID of port %d", g.DGID.Addr(), port))
	case 1:
		return same[0].Index, nil // without a look at the interfaces, which costs several system calls
	}
	return bestGID(same, make(namespace)).Index, nil
}
