package record

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// chosen are attributes whose value user space chooses as it likes, or that hold addresses or
// descriptors.
var chosen = map[[3]uint16]bool{
	{abi.UVERBS_OBJECT_ASYNC_EVENT, abi.UVERBS_METHOD_ASYNC_EVENT_ALLOC, abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE}: true,
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.UVERBS_ATTR_CREATE_CQ_USER_HANDLE}:                        true,
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL}:                       true,
	{abi.UVERBS_OBJECT_CQ, abi.UVERBS_METHOD_CQ_CREATE, abi.UVERBS_ATTR_CREATE_CQ_EVENT_FD}:                           true,
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, abi.UVERBS_ATTR_CREATE_QP_USER_HANDLE}:                        true,
	{abi.UVERBS_OBJECT_QP, abi.UVERBS_METHOD_QP_CREATE, abi.UVERBS_ATTR_CREATE_QP_EVENT_FD}:                           true,
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, abi.UVERBS_ATTR_CREATE_SRQ_USER_HANDLE}:                     true,
	{abi.UVERBS_OBJECT_SRQ, abi.UVERBS_METHOD_SRQ_CREATE, abi.UVERBS_ATTR_CREATE_SRQ_EVENT_FD}:                        true,
	{abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_CREATE, abi.UVERBS_ATTR_CREATE_WQ_USER_HANDLE}:                        true,
	{abi.UVERBS_OBJECT_WQ, abi.UVERBS_METHOD_WQ_CREATE, abi.UVERBS_ATTR_CREATE_WQ_EVENT_FD}:                           true,
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR, abi.UVERBS_ATTR_REG_DMABUF_MR_FD}:                         true,
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_REG_DMABUF_MR, abi.UVERBS_ATTR_REG_DMABUF_MR_IOVA}:                       true,
	{abi.UVERBS_OBJECT_MR, abi.UVERBS_METHOD_ADVISE_MR, abi.UVERBS_ATTR_ADVISE_MR_SGE_LIST}:                           true,
}

// requestLine returns the line of a request to the core. Private bytes of a driver have their own
// lines, so this one has only their number.
func requestLine(driver uint32, call string, r *ioctl.Request) *line {
	l := &line{stream: "asks." + call, kind: "request"}
	command, isCommand := r.Command()
	attrs := slices.SortedFunc(slices.Values(r.Attrs()), func(a, b abi.IbUverbsAttr) int { return cmp.Compare(a.AttrId, b.AttrId) })
	for _, a := range attrs {
		switch {
		case isCommand && a.AttrId == abi.UVERBS_ATTR_WRITE_CMD:
		case isCommand && a.AttrId == abi.UVERBS_ATTR_CORE_IN:
			b, _ := r.Bytes(a.AttrId)
			l.command(command, b)
		case isCommand && a.AttrId == abi.UVERBS_ATTR_CORE_OUT:
			l.fields = append(l.fields, fmt.Sprintf("out:%d", a.Len))
		default:
			l.attribute(driver, r, a)
		}
	}
	return l
}

// attribute adds an attribute of a method, or one with private bytes.
func (l *line) attribute(driver uint32, r *ioctl.Request, a abi.IbUverbsAttr) {
	h := r.Header()
	name := fmt.Sprintf("%d:%d", a.AttrId, a.Len)
	b, _ := r.Bytes(a.AttrId)
	switch kind := fakeverbs.KindOf(driver, h.ObjectId, h.MethodId, a.AttrId); {
	case a.AttrId == abi.UVERBS_ATTR_UHW_IN:
		l.add(name, "private")
	case kind == fakeverbs.AttrOut || a.AttrId == abi.UVERBS_ATTR_UHW_OUT:
		l.add(name, "out")
	case chosen[[3]uint16{h.ObjectId, h.MethodId, a.AttrId}]:
		l.add(name, "@")
	case kind == fakeverbs.AttrObject:
		l.handle(fmt.Sprint(a.AttrId), uint32(a.Data))
	case len(b) <= 8:
		l.num(name, little(b))
	default:
		l.add(name, fmt.Sprintf("%x", bytes.TrimRight(b, "\x00")))
	}
}

func (l *line) handle(name string, v uint32) { l.add(name, fmt.Sprintf("%%h%d", v)) }
