package record

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goverbs/goverbs/internal/abi"
)

// inputs are what the commands of INVOKE_WRITE begin with. Arrays follow some of them.
var inputs = map[uint32]reflect.Type{
	abi.IB_USER_VERBS_CMD_QUERY_DEVICE:                     reflect.TypeFor[abi.IbUverbsQueryDevice](),
	abi.IB_USER_VERBS_CMD_ALLOC_PD:                         reflect.TypeFor[abi.IbUverbsAllocPd](),
	abi.IB_USER_VERBS_CMD_CREATE_AH:                        reflect.TypeFor[abi.IbUverbsCreateAh](),
	abi.IB_USER_VERBS_CMD_REG_MR:                           reflect.TypeFor[abi.IbUverbsRegMr](),
	abi.IB_USER_VERBS_CMD_REREG_MR:                         reflect.TypeFor[abi.IbUverbsReregMr](),
	abi.IB_USER_VERBS_CMD_ALLOC_MW:                         reflect.TypeFor[abi.IbUverbsAllocMw](),
	abi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:              reflect.TypeFor[abi.IbUverbsCreateCompChannel](),
	abi.IB_USER_VERBS_CMD_RESIZE_CQ:                        reflect.TypeFor[abi.IbUverbsResizeCq](),
	abi.IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:                    reflect.TypeFor[abi.IbUverbsReqNotifyCq](),
	abi.IB_USER_VERBS_CMD_QUERY_QP:                         reflect.TypeFor[abi.IbUverbsQueryQp](),
	abi.IB_USER_VERBS_CMD_MODIFY_QP:                        reflect.TypeFor[abi.IbUverbsModifyQp](),
	abi.IB_USER_VERBS_CMD_POST_SEND:                        reflect.TypeFor[abi.IbUverbsPostSend](),
	abi.IB_USER_VERBS_CMD_ATTACH_MCAST:                     reflect.TypeFor[abi.IbUverbsAttachMcast](),
	abi.IB_USER_VERBS_CMD_DETACH_MCAST:                     reflect.TypeFor[abi.IbUverbsDetachMcast](),
	abi.IB_USER_VERBS_CMD_MODIFY_SRQ:                       reflect.TypeFor[abi.IbUverbsModifySrq](),
	abi.IB_USER_VERBS_CMD_QUERY_SRQ:                        reflect.TypeFor[abi.IbUverbsQuerySrq](),
	abi.IB_USER_VERBS_CMD_OPEN_XRCD:                        reflect.TypeFor[abi.IbUverbsOpenXrcd](),
	abi.IB_USER_VERBS_CMD_OPEN_QP:                          reflect.TypeFor[abi.IbUverbsOpenQp](),
	extended | abi.IB_USER_VERBS_EX_CMD_QUERY_DEVICE:       reflect.TypeFor[abi.IbUverbsExQueryDevice](),
	extended | abi.IB_USER_VERBS_EX_CMD_MODIFY_QP:          reflect.TypeFor[abi.IbUverbsExModifyQp](),
	extended | abi.IB_USER_VERBS_EX_CMD_MODIFY_CQ:          reflect.TypeFor[abi.IbUverbsExModifyCq](),
	extended | abi.IB_USER_VERBS_EX_CMD_MODIFY_WQ:          reflect.TypeFor[abi.IbUverbsExModifyWq](),
	extended | abi.IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL: reflect.TypeFor[abi.IbUverbsExCreateRwqIndTable](),
	extended | abi.IB_USER_VERBS_EX_CMD_CREATE_FLOW:        reflect.TypeFor[abi.IbUverbsCreateFlow](),
}

const extended = abi.IB_USER_VERBS_CMD_FLAG_EXTENDED

// command adds the fields of a command, and the rest of its bytes.
func (l *line) command(number uint32, b []byte) {
	l.fields = append(l.fields, fmt.Sprintf("in:%d", len(b)))
	typ, ok := inputs[number]
	if !ok {
		l.add("command", fmt.Sprintf("%#x", number))
		typ = reflect.TypeFor[struct{}]()
	}
	in := reflect.New(typ).Elem()
	l.structure("", in, b)
	if size := int(typ.Size()); len(b) > size && strings.Trim(string(b[size:]), "\x00") != "" {
		l.add("more", fmt.Sprintf("%x", b[size:]))
	}
}

// structure adds the fields of a struct that b holds, as far as that reaches.
func (l *line) structure(prefix string, in reflect.Value, b []byte) {
	for i := range in.NumField() {
		f := in.Type().Field(i)
		if f.Name == "_" || f.Name == "Response" || f.Name == "UserHandle" || int(f.Offset) >= len(b) {
			continue // the answer goes where the other attribute says, and a handle of user space's is any number
		}
		from := b[f.Offset:min(int(f.Offset+f.Type.Size()), len(b))]
		if f.Type.Kind() == reflect.Struct {
			l.structure(prefix+f.Name+".", in.Field(i), from)
			continue
		}
		l.member(prefix, f, from)
	}
}

// member adds a field, if it is not zero. A handle may be.
func (l *line) member(prefix string, f reflect.StructField, b []byte) {
	name, v := prefix+f.Name, little(b)
	switch f.Name {
	case "PdHandle", "QpHandle", "CqHandle", "MrHandle", "SrqHandle", "XrcdHandle", "WqHandle", "Fd":
		l.handle(name, uint32(v))
		return
	}
	switch {
	case strings.Trim(string(b), "\x00") == "":
	case f.Type.Kind() == reflect.Array:
		l.add(name, fmt.Sprintf("%x", b))
	case f.Name == "Start" || f.Name == "HcaVa":
		l.addr(name, v)
	case f.Name == "DestQpNum" || f.Name == "Qpn":
		l.qpn(name, uint32(v))
	default:
		l.num(name, v)
	}
}
