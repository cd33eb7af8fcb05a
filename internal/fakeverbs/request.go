package fakeverbs

import (
	"encoding/binary"
	"reflect"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

type kind int

const (
	ptrIn  kind = iota // input, by value up to 8 bytes
	ptrOut             // output, always by address
	constIn
	flagsIn
	handle // handle or descriptor of an existing or new object
)

// MethodAttr describes an attribute of a method.
type MethodAttr struct {
	id       uint16
	kind     kind
	min, max int
	must     bool
}

// Method is a method of an object with its attributes.
type Method struct {
	name  string
	run   func(*Kernel, *ioctl.Request) error
	attrs []MethodAttr
}

// NewMethod returns a method of a driver.
func NewMethod(name string, run func(*Kernel, *ioctl.Request) error, attrs []MethodAttr) *Method {
	return &Method{name, run, attrs}
}

const anyLen = 1<<16 - 1

// The functions below return attributes. In is an input of a size, InMin one of at least a size, Out and OutMin
// are outputs, Enum is a constant, Flags a set of flags, and Obj a handle. Destroys is the only attribute of a
// method that destroys an object.

func In(id uint16, size int) MethodAttr      { return MethodAttr{id, ptrIn, size, size, true} }
func InMin(id uint16, size int) MethodAttr   { return MethodAttr{id, ptrIn, size, anyLen, true} }
func Out(id uint16, size int) MethodAttr     { return MethodAttr{id, ptrOut, size, size, true} }
func OutMin(id uint16, size int) MethodAttr  { return MethodAttr{id, ptrOut, size, anyLen, true} }
func Enum(id uint16) MethodAttr              { return MethodAttr{id, constIn, 8, 8, true} }
func Flags(id uint16) MethodAttr             { return MethodAttr{id, flagsIn, 4, 8, true} }
func Obj(id uint16) MethodAttr               { return MethodAttr{id, handle, 0, 0, true} }
func (a MethodAttr) Optional() MethodAttr    { a.must = false; return a }
func Destroys(id uint16) []MethodAttr        { return []MethodAttr{Obj(id)} }
func udata(attrs ...MethodAttr) []MethodAttr { return append(attrs, uhwIn, uhwOut) }
func (a MethodAttr) fits(length uint16) bool { return int(length) >= a.min && int(length) <= a.max }
func (k kind) byValue(length int) bool       { return k == ptrIn && length <= 8 }

var (
	uhwIn  = MethodAttr{abi.UVERBS_ATTR_UHW_IN, ptrIn, 0, anyLen, false}
	uhwOut = MethodAttr{abi.UVERBS_ATTR_UHW_OUT, ptrOut, 0, anyLen, false}
)

// check returns the error of the kernel's dispatcher for an invalid request. It doesn't allocate.
func (m *Method) check(r *ioctl.Request, own map[uint16]bool) error {
	var seen uint64
	attrs := r.Attrs()
	for i := range attrs {
		a := &attrs[i]
		n := m.index(a.AttrId)
		if n < 0 {
			if a.Flags&abi.UVERBS_ATTR_F_MANDATORY != 0 && !own[a.AttrId] {
				return syscall.EPROTONOSUPPORT
			}
			continue
		}
		if seen&(1<<n) != 0 || !m.attrs[n].fits(a.Len) {
			return syscall.EINVAL
		}
		seen |= 1 << n
		if err := m.attrs[n].checkMemory(r, a); err != nil {
			return err
		}
	}
	for n := range m.attrs {
		if m.attrs[n].must && seen&(1<<n) == 0 {
			return syscall.EINVAL
		}
	}
	return nil
}

func (m *Method) index(id uint16) int {
	for n := range m.attrs {
		if m.attrs[n].id == id {
			return n
		}
	}
	return -1
}

// checkMemory refuses an address where the kernel expects a value, and a value where it expects an address.
func (a *MethodAttr) checkMemory(r *ioctl.Request, wire *abi.IbUverbsAttr) error {
	b, _ := r.Bytes(wire.AttrId)
	switch {
	case a.kind.byValue(len(b)):
		for i, v := range b {
			if v != byte(wire.Data>>(8*i)) {
				return syscall.EFAULT
			}
		}
	case a.kind == ptrIn || a.kind == ptrOut:
		if wire.Data == 0 && wire.Len > 0 || len(b) != int(wire.Len) {
			return syscall.EFAULT
		}
	}
	return nil
}

// methods holds the methods of the core that a software device has, with their attributes in Linux 6.12.
var methods = map[[2]uint16]*Method{
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INVOKE_WRITE}: {"INVOKE_WRITE", (*Kernel).invokeWrite, udata(
		InMin(abi.UVERBS_ATTR_CORE_IN, 4).Optional(),
		OutMin(abi.UVERBS_ATTR_CORE_OUT, 0).Optional(),
		Enum(abi.UVERBS_ATTR_WRITE_CMD),
	)},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT}: {"QUERY_PORT", (*Kernel).queryPort, []MethodAttr{
		Enum(abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM),
		OutMin(abi.UVERBS_ATTR_QUERY_PORT_RESP, 48),
	}},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT}: {"GET_CONTEXT", (*Kernel).getContext, udata(
		Out(abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4).Optional(),
		Out(abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8).Optional(),
	)},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_CONTEXT}: {"QUERY_CONTEXT", (*Kernel).QueryContext, ContextAttrs},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE}: {"QUERY_GID_TABLE", (*Kernel).queryGIDTable, []MethodAttr{
		Enum(abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE),
		Flags(abi.UVERBS_ATTR_QUERY_GID_TABLE_FLAGS).Optional(),
		OutMin(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0),
		Out(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8),
	}},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY}: {"QUERY_GID_ENTRY", (*Kernel).queryGIDEntry, []MethodAttr{
		Enum(abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT),
		Enum(abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
		Flags(abi.UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS),
		OutMin(abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, 32),
	}},
	{abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC}: {"ASYNC_EVENT_ALLOC", (*Kernel).asyncEventAlloc, []MethodAttr{
		Obj(abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE),
	}},
	{abi.UVERBS_OBJECT_PD, abi.UVERBS_METHOD_PD_DESTROY}: {"PD_DESTROY", (*Kernel).destroyPD, Destroys(abi.UVERBS_ATTR_DESTROY_PD_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_MR_DESTROY}: {"MR_DESTROY", (*Kernel).destroyMR, Destroys(abi.UVERBS_ATTR_DESTROY_MR_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_ADVISE_MR}: {"ADVISE_MR", (*Kernel).adviseMR, []MethodAttr{
		Obj(abi.UVERBS_ATTR_ADVISE_MR_PD_HANDLE),
		Enum(abi.UVERBS_ATTR_ADVISE_MR_ADVICE),
		Flags(abi.UVERBS_ATTR_ADVISE_MR_FLAGS),
		InMin(abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST, 16),
	}},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_QUERY_MR}: {"QUERY_MR", (*Kernel).queryMR, []MethodAttr{
		Obj(abi.UVERBS_ATTR_QUERY_MR_HANDLE),
		Out(abi.UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4),
		Out(abi.UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4),
		Out(abi.UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8),
		Out(abi.UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8).Optional(),
	}},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR}: {"REG_DMABUF_MR", (*Kernel).regDMABuf, []MethodAttr{
		Obj(abi.UVERBS_ATTR_REG_DMABUF_MR_HANDLE),
		Obj(abi.UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE),
		In(abi.UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8),
		In(abi.UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8),
		In(abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8),
		In(abi.UVERBS_ATTR_REG_DMABUF_MR_FD, 4),
		Flags(abi.UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS).Optional(),
		Out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4),
		Out(abi.UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4),
	}},
	{abi.UVERBS_OBJECT_XRCD, abi.UVERBS_METHOD_XRCD_DESTROY}: {"XRCD_DESTROY", (*Kernel).destroyXRCD, Destroys(abi.UVERBS_ATTR_DESTROY_XRCD_HANDLE)},
	{abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_CREATE}: {"WQ_CREATE", (*Kernel).createWQ, udata(
		Obj(abi.UVERBS_ATTR_CREATE_WQ_HANDLE),
		Obj(abi.UVERBS_ATTR_CREATE_WQ_PD_HANDLE),
		Obj(abi.UVERBS_ATTR_CREATE_WQ_CQ_HANDLE).Optional(),
		In(abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE, 8),
		Enum(abi.UVERBS_ATTR_CREATE_WQ_TYPE),
		Obj(abi.UVERBS_ATTR_CREATE_WQ_EVENT_FD).Optional(),
		In(abi.UVERBS_ATTR_CREATE_WQ_MAX_WR, 4),
		In(abi.UVERBS_ATTR_CREATE_WQ_MAX_SGE, 4),
		Flags(abi.UVERBS_ATTR_CREATE_WQ_FLAGS),
		Out(abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, 4),
		Out(abi.UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, 4),
		Out(abi.UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, 4).Optional(),
	)},
	{abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_DESTROY}: {"WQ_DESTROY", (*Kernel).destroyWQ, []MethodAttr{
		Obj(abi.UVERBS_ATTR_DESTROY_WQ_HANDLE),
		Out(abi.UVERBS_ATTR_DESTROY_WQ_RESP, 4),
	}},
	{abi.UVERBS_OBJECT_RWQ_IND_TBL, abi.UVERBS_METHOD_RWQ_IND_TBL_DESTROY}: {"RWQ_IND_TBL_DESTROY", (*Kernel).destroyIndTable,
		Destroys(abi.UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE)},
	{abi.UVERBS_OBJECT_FLOW, abi.UVERBS_METHOD_FLOW_DESTROY}: {"FLOW_DESTROY", (*Kernel).destroyFlow, Destroys(abi.UVERBS_ATTR_DESTROY_FLOW_HANDLE)},
	{abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_CREATE}: {"COUNTERS_CREATE", (*Kernel).createCounters, []MethodAttr{
		Obj(abi.UVERBS_ATTR_CREATE_COUNTERS_HANDLE),
	}},
	{abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_DESTROY}: {"COUNTERS_DESTROY", (*Kernel).destroyCounters,
		Destroys(abi.UVERBS_ATTR_DESTROY_COUNTERS_HANDLE)},
	{abi.UVERBS_OBJECT_COUNTERS, abi.UVERBS_METHOD_COUNTERS_READ}: {"COUNTERS_READ", (*Kernel).readCounters, []MethodAttr{
		Obj(abi.UVERBS_ATTR_READ_COUNTERS_HANDLE),
		OutMin(abi.UVERBS_ATTR_READ_COUNTERS_BUFF, 0),
		Flags(abi.UVERBS_ATTR_READ_COUNTERS_FLAGS).Optional(),
	}},
	{abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_ALLOC}: {"DM_ALLOC", (*Kernel).AllocDM, AllocDMAttrs},
	{abi.UVERBS_OBJECT_DM, abi.UVERBS_METHOD_DM_FREE}:  {"DM_FREE", (*Kernel).freeDM, Destroys(abi.UVERBS_ATTR_FREE_DM_HANDLE)},
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_DM_MR_REG}: {"DM_MR_REG", (*Kernel).regDM, []MethodAttr{
		Obj(abi.UVERBS_ATTR_REG_DM_MR_HANDLE),
		In(abi.UVERBS_ATTR_REG_DM_MR_OFFSET, 8),
		In(abi.UVERBS_ATTR_REG_DM_MR_LENGTH, 8),
		Obj(abi.UVERBS_ATTR_REG_DM_MR_PD_HANDLE),
		Flags(abi.UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS).Optional(),
		Obj(abi.UVERBS_ATTR_REG_DM_MR_DM_HANDLE),
		Out(abi.UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4),
		Out(abi.UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4),
	}},
	{abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_INFO_HANDLES}: {"INFO_HANDLES", (*Kernel).infoHandles, []MethodAttr{
		Enum(abi.UVERBS_ATTR_INFO_OBJECT_ID),
		Out(abi.UVERBS_ATTR_INFO_TOTAL_HANDLES, 4).Optional(),
		OutMin(abi.UVERBS_ATTR_INFO_HANDLES_LIST, 4).Optional(),
	}},
	{abi.UVERBS_OBJECT_AH, abi.UVERBS_METHOD_AH_DESTROY}: {"AH_DESTROY", (*Kernel).destroyAH, Destroys(abi.UVERBS_ATTR_DESTROY_AH_HANDLE)},
	{abi.UVERBS_OBJECT_MW, abi.UVERBS_METHOD_MW_DESTROY}: {"MW_DESTROY", (*Kernel).destroyMW, Destroys(abi.UVERBS_ATTR_DESTROY_MW_HANDLE)},
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE}: {"CQ_CREATE", (*Kernel).createCQ, udata(
		Obj(abi.UVERBS_ATTR_CREATE_CQ_HANDLE),
		In(abi.UVERBS_ATTR_CREATE_CQ_CQE, 4),
		In(abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8),
		Obj(abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL).Optional(),
		In(abi.UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4),
		Flags(abi.UVERBS_ATTR_CREATE_CQ_FLAGS).Optional(),
		Out(abi.UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4),
		Obj(abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD).Optional(),
	)},
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_DESTROY}: {"CQ_DESTROY", (*Kernel).destroyCQ, []MethodAttr{
		Obj(abi.UVERBS_ATTR_DESTROY_CQ_HANDLE),
		Out(abi.UVERBS_ATTR_DESTROY_CQ_RESP, 8),
	}},
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE}: {"QP_CREATE", (*Kernel).createQP, udata(
		Obj(abi.UVERBS_ATTR_CREATE_QP_HANDLE),
		Obj(abi.UVERBS_ATTR_CREATE_QP_XRCD_HANDLE).Optional(),
		Obj(abi.UVERBS_ATTR_CREATE_QP_PD_HANDLE).Optional(),
		Obj(abi.UVERBS_ATTR_CREATE_QP_SRQ_HANDLE).Optional(),
		Obj(abi.UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE).Optional(),
		Obj(abi.UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE).Optional(),
		Obj(abi.UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE).Optional(),
		In(abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8),
		InMin(abi.UVERBS_ATTR_CREATE_QP_CAP, 20),
		Enum(abi.UVERBS_ATTR_CREATE_QP_TYPE),
		Flags(abi.UVERBS_ATTR_CREATE_QP_FLAGS).Optional(),
		In(abi.UVERBS_ATTR_CREATE_QP_SOURCE_QPN, 4).Optional(),
		Obj(abi.UVERBS_ATTR_CREATE_QP_EVENT_FD).Optional(),
		OutMin(abi.UVERBS_ATTR_CREATE_QP_RESP_CAP, 20),
		Out(abi.UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4),
	)},
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_DESTROY}: {"QP_DESTROY", (*Kernel).destroyQP, []MethodAttr{
		Obj(abi.UVERBS_ATTR_DESTROY_QP_HANDLE),
		Out(abi.UVERBS_ATTR_DESTROY_QP_RESP, 4),
	}},
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE}: {"SRQ_CREATE", (*Kernel).createSRQ, udata(
		Obj(abi.UVERBS_ATTR_CREATE_SRQ_HANDLE),
		Obj(abi.UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
		Obj(abi.UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE).Optional(),
		Obj(abi.UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE).Optional(),
		In(abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 8),
		In(abi.UVERBS_ATTR_CREATE_SRQ_MAX_WR, 4),
		In(abi.UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 4),
		In(abi.UVERBS_ATTR_CREATE_SRQ_LIMIT, 4),
		Enum(abi.UVERBS_ATTR_CREATE_SRQ_TYPE),
		Obj(abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD).Optional(),
		Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4),
		Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4),
		Out(abi.UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, 4).Optional(),
	)},
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_DESTROY}: {"SRQ_DESTROY", (*Kernel).destroySRQ, []MethodAttr{
		Obj(abi.UVERBS_ATTR_DESTROY_SRQ_HANDLE),
		Out(abi.UVERBS_ATTR_DESTROY_SRQ_RESP, 4),
	}},
}

// methodOf returns a method of a driver or of the core, or nil.
func methodOf(driver uint32, object, number uint16) *Method {
	id := [2]uint16{object, number}
	if d := drivers[driver]; d != nil && d.Methods[id] != nil {
		return d.Methods[id]
	}
	if m := newestMethods[id]; m != nil {
		return m
	}
	return methods[id]
}

// CallNames returns the names of all calls of the core.
func CallNames() (names []string) {
	for _, table := range []map[[2]uint16]*Method{methods, newestMethods} {
		for _, m := range table {
			names = append(names, m.name)
		}
	}
	for _, c := range commands {
		names = append(names, c.name)
	}
	return names
}

// command is a command from before the ioctl interface.
type command struct {
	name    string
	in, out int
	run     func(*Kernel, *ioctl.Request) error
	quick   func(k *Kernel, in []byte) error // handles the command through write(2), if user space uses that
}

const extended = abi.IB_USER_VERBS_CMD_FLAG_EXTENDED

var commands = map[uint32]command{
	abi.IB_USER_VERBS_CMD_QUERY_DEVICE:                     {"QUERY_DEVICE_LEGACY", 8, 176, (*Kernel).queryDeviceLegacy, nil},
	abi.IB_USER_VERBS_CMD_ALLOC_PD:                         {"ALLOC_PD", 8, 4, (*Kernel).allocPD, nil},
	abi.IB_USER_VERBS_CMD_CREATE_AH:                        {"CREATE_AH", 56, 4, (*Kernel).createAH, nil},
	abi.IB_USER_VERBS_CMD_REREG_MR:                         {"REREG_MR", 48, 8, (*Kernel).reregMR, nil},
	abi.IB_USER_VERBS_CMD_ALLOC_MW:                         {"ALLOC_MW", 16, 8, (*Kernel).allocMW, nil},
	abi.IB_USER_VERBS_CMD_RESIZE_CQ:                        {"RESIZE_CQ", 16, 8, (*Kernel).resizeCQ, nil},
	abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:                    {"REQ_NOTIFY_CQ", 8, 0, (*Kernel).reqNotifyCQ, (*Kernel).quickNotifyCQ},
	abi.IB_USER_VERBS_CMD_ATTACH_MCAST:                     {"ATTACH_MCAST", 24, 0, (*Kernel).attachMcast, nil},
	abi.IB_USER_VERBS_CMD_DETACH_MCAST:                     {"DETACH_MCAST", 24, 0, (*Kernel).detachMcast, nil},
	abi.IB_USER_VERBS_CMD_REG_MR:                           {"REG_MR", 40, 12, (*Kernel).regMR, nil},
	abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:              {"CREATE_COMP_CHANNEL", 8, 4, (*Kernel).createCompChannel, nil},
	abi.IB_USER_VERBS_CMD_QUERY_QP:                         {"QUERY_QP", 16, 128, (*Kernel).queryQP, nil},
	abi.IB_USER_VERBS_CMD_MODIFY_QP:                        {"MODIFY_QP", 112, 0, (*Kernel).modifyQP, nil},
	abi.IB_USER_VERBS_CMD_POST_SEND:                        {"POST_SEND", 24, 4, (*Kernel).postSend, (*Kernel).quickPostSend},
	abi.IB_USER_VERBS_CMD_MODIFY_SRQ:                       {"MODIFY_SRQ", 16, 0, (*Kernel).modifySRQ, nil},
	abi.IB_USER_VERBS_CMD_QUERY_SRQ:                        {"QUERY_SRQ", 16, 16, (*Kernel).querySRQ, nil},
	abi.IB_USER_VERBS_CMD_OPEN_XRCD:                        {"OPEN_XRCD", 16, 4, (*Kernel).openXRCD, nil},
	abi.IB_USER_VERBS_CMD_OPEN_QP:                          {"OPEN_QP", 32, 32, (*Kernel).openQP, nil},
	abi.IB_USER_VERBS_EX_CMD_MODIFY_QP | extended:          {"EX_MODIFY_QP", 120, 8, (*Kernel).exModifyQP, nil},
	abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ | extended:          {"MODIFY_WQ", 24, 0, (*Kernel).modifyWQ, nil},
	abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL | extended: {"CREATE_RWQ_IND_TBL", 8, 16, (*Kernel).createIndTable, nil},
	abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW | extended:        {"CREATE_FLOW", 24, 8, (*Kernel).createFlow, nil},
	abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ | extended:          {"MODIFY_CQ", 16, 0, (*Kernel).modifyCQ, nil},
	abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE | extended:       {"QUERY_DEVICE", 8, 304, (*Kernel).queryDevice, nil},
}

func (k *Kernel) invokeWrite(r *ioctl.Request) error {
	id, _ := r.Command()
	c, ok := commands[id]
	if !ok || !k.has(c.name) {
		return syscall.EOPNOTSUPP
	}
	in, _ := r.Bytes(abi.UVERBS_ATTR_CORE_IN)
	out, _ := r.Bytes(abi.UVERBS_ATTR_CORE_OUT)
	if len(in) < c.in || len(out) < c.out {
		return syscall.ENOSPC
	}
	if !k.context {
		return syscall.EINVAL
	}
	return c.run(k, r)
}

// request decodes the input of a command.
func request[T any](r *ioctl.Request) (v T) {
	ioctl.Argument(r, abi.UVERBS_ATTR_CORE_IN, &v)
	return v
}

func respond[T any](r *ioctl.Request, v T) error { return Answer(r, abi.UVERBS_ATTR_CORE_OUT, v) }

// Answer writes an output. It returns EINVAL if there is no room for it.
func Answer[T any](r *ioctl.Request, id uint16, v T) error {
	if !ioctl.Answer(r, id, &v) {
		return syscall.EINVAL
	}
	return nil
}

// AnswerDriver writes a driver's answer. It returns EINVAL if there is no room for all of it.
func AnswerDriver[T any](r *ioctl.Request, v T) error { return Answer(r, abi.UVERBS_ATTR_UHW_OUT, v) }

// HasRoom reports whether there is room for a driver's answer of n bytes.
func HasRoom(r *ioctl.Request, n int) bool {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	return len(b) >= n
}

// Command handles a command from write(2), as ib_uverbs_write does. It supports doorbells and arming. It
// doesn't allocate.
func (k *Kernel) Command(wire []byte) error {
	defer crash()
	k.mu.Lock()
	defer k.unlock()
	switch {
	case k.closed:
		return syscall.EBADF
	case k.isGone():
		return syscall.EIO
	case k.OtherCredentials:
		return syscall.EACCES
	case len(wire) < commandHeader:
		return syscall.EINVAL
	}
	id := u32(wire, 0)
	switch {
	case id&^(extended|0xff) != 0:
		return syscall.EINVAL
	case id&extended != 0:
		return syscall.EOPNOTSUPP
	}
	c := commands[id] // the zero value stands for the kernel's notsupp_method, whose lengths are checked, too
	if !k.has(c.name) {
		c = command{}
	}
	if err := c.checkWire(wire); err != nil {
		return err
	}
	if c.quick == nil {
		return syscall.EOPNOTSUPP
	}
	if !k.context {
		return syscall.EINVAL
	}
	if err := k.fault(c.name); err != nil {
		return err
	}
	return c.quick(k, wire[commandHeader:])
}

// commandHeader is the size of struct ib_uverbs_cmd_hdr, which holds the command, and the lengths in words
// of the written bytes and of the answer.
const commandHeader = 8

// checkWire makes the checks of verify_hdr. It also checks that the answer's address is directly behind
// the command, where the command has room for it.
func (c *command) checkWire(wire []byte) error {
	words := u32(wire, 4)
	switch written, answered := int(words&0xffff)*4, int(words>>16)*4; {
	case written != len(wire):
		return syscall.EINVAL
	case len(wire) < commandHeader+c.in, answered < c.out:
		return syscall.ENOSPC
	case c.quick != nil && c.out > 0 && u64(wire, commandHeader) != uint64(reflect.ValueOf(&wire[0]).Pointer())+uint64(len(wire)):
		return syscall.EFAULT
	}
	return nil
}

// quickPostSend reads struct ib_uverbs_post_send.
func (k *Kernel) quickPostSend(in []byte) error {
	return k.ringDoorbell(&abi.IbUverbsPostSend{QpHandle: u32(in, 8), WrCount: u32(in, 12), SgeCount: u32(in, 16), WqeSize: u32(in, 20)})
}

// quickNotifyCQ reads struct ib_uverbs_req_notify_cq.
func (k *Kernel) quickNotifyCQ(in []byte) error {
	return k.armCQ(&abi.IbUverbsReqNotifyCq{CqHandle: u32(in, 0), SolicitedOnly: u32(in, 4)})
}

func u64(b []byte, at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }

// AttrKind is the kind of a method's attribute. A request doesn't contain it.
type AttrKind int

// The kinds.
const (
	AttrUnknown AttrKind = iota
	AttrIn               // input, by value up to 8 bytes, otherwise by address
	AttrOut              // output, always by address
	AttrObject           // handle or descriptor of an existing or new object
)

// KindOf returns the kind of an attribute of a driver's method. The sandbox uses it to find the memory that
// requests of other processes refer to.
func KindOf(driver uint32, object, method, id uint16) AttrKind {
	m := methodOf(driver, object, method)
	if m == nil {
		return AttrUnknown
	}
	i := m.index(id)
	if i < 0 {
		return AttrUnknown
	}
	switch m.attrs[i].kind {
	case ptrOut:
		return AttrOut
	case handle:
		return AttrObject
	}
	return AttrIn
}
