package nltest

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// Objects are the objects of a device.
type Objects struct {
	QP        []netlinkrdma.QP
	CMID      []netlinkrdma.CMID
	CQ        []netlinkrdma.CQ
	MR        []netlinkrdma.MR
	PD        []netlinkrdma.PD
	Context   []netlinkrdma.Context
	SRQ       []netlinkrdma.SRQ
	QPCounter []netlinkrdma.QPCounter
	// MRCounters are the counters of MRs.
	MRCounters []netlinkrdma.MRCounters
	// FRMRPools are the driver's pools; nil for a driver without pools.
	FRMRPools []netlinkrdma.FRMRPool
	// Raw is the raw data of every QP, CQ, MR and SRQ; nil for a driver without raw data.
	Raw []byte
}

// count counts the objects in the kernel's order.
func (o Objects) count() []netlinkrdma.Resource {
	var all []netlinkrdma.Resource
	add := func(kind string, n int) {
		all = append(all, netlinkrdma.Resource{Kind: kind, Count: uint64(n)})
	}
	add("pd", len(o.PD))
	add("cq", len(o.CQ))
	add("qp", len(o.QP))
	add("cm_id", len(o.CMID))
	add("mr", len(o.MR))
	add("ctx", len(o.Context))
	add("srq", len(o.SRQ))
	return all
}

// object is an object as the kernel sends it.
type object struct {
	number, port uint32
	attrs        []byte
}

// objectsOf turns a list into objects.
func objectsOf[T any](list []T, encode func(T) []byte, id func(T) (number, port uint32)) []object {
	objects := make([]object, len(list))
	for i, v := range list {
		objects[i].number, objects[i].port = id(v)
		objects[i].attrs = encode(v)
	}
	return objects
}

// objectKind describes the requests for one kind of object.
type objectKind struct {
	table, entry, id uint16
	perPort          bool
	raw              bool
	list             func(o Objects) []object
}

var (
	qpKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_QP, abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, abi.RDMA_NLDEV_ATTR_RES_LQPN, true, false, func(o Objects) []object {
		return objectsOf(o.QP, EncodeQP, qpNumber)
	}}
	cmIDKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_CM_ID, abi.RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, abi.RDMA_NLDEV_ATTR_RES_CM_IDN, true, false, func(o Objects) []object {
		return objectsOf(o.CMID, EncodeCMID, func(m netlinkrdma.CMID) (uint32, uint32) { return m.CMIDN, uint32(m.Port) })
	}}
	cqKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_CQ, abi.RDMA_NLDEV_ATTR_RES_CQ_ENTRY, abi.RDMA_NLDEV_ATTR_RES_CQN, false, false, func(o Objects) []object {
		return objectsOf(o.CQ, EncodeCQ, func(q netlinkrdma.CQ) (uint32, uint32) { return q.CQN, 0 })
	}}
	mrKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_MR, abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, abi.RDMA_NLDEV_ATTR_RES_MRN, false, false, func(o Objects) []object {
		return objectsOf(o.MR, EncodeMR, func(m netlinkrdma.MR) (uint32, uint32) { return m.MRN, 0 })
	}}
	pdKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_PD, abi.RDMA_NLDEV_ATTR_RES_PD_ENTRY, abi.RDMA_NLDEV_ATTR_RES_PDN, false, false, func(o Objects) []object {
		return objectsOf(o.PD, EncodePD, func(p netlinkrdma.PD) (uint32, uint32) { return p.PDN, 0 })
	}}
	contextKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_CTX, abi.RDMA_NLDEV_ATTR_RES_CTX_ENTRY, abi.RDMA_NLDEV_ATTR_RES_CTXN, false, false, func(o Objects) []object {
		return objectsOf(o.Context, EncodeContext, func(x netlinkrdma.Context) (uint32, uint32) { return x.CTXN, 0 })
	}}
	srqKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_SRQ, abi.RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, abi.RDMA_NLDEV_ATTR_RES_SRQN, false, false, func(o Objects) []object {
		return objectsOf(o.SRQ, EncodeSRQ, func(s netlinkrdma.SRQ) (uint32, uint32) { return s.SRQN, 0 })
	}}
	qpCounterKind = objectKind{abi.RDMA_NLDEV_ATTR_STAT_COUNTER, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY, abi.RDMA_NLDEV_ATTR_STAT_COUNTER_ID, true, false, func(o Objects) []object {
		return objectsOf(o.QPCounter, EncodeQPCounter, func(q netlinkrdma.QPCounter) (uint32, uint32) { return uint32(q.ID), uint32(q.Port) })
	}}
	mrCountersKind = objectKind{abi.RDMA_NLDEV_ATTR_RES_MR, abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, abi.RDMA_NLDEV_ATTR_RES_MRN, false, false, func(o Objects) []object {
		return objectsOf(o.MRCounters, EncodeMRCounters, func(m netlinkrdma.MRCounters) (uint32, uint32) { return m.MRN, 0 })
	}}
)

// qpNumber returns the number by which the kernel stores a QP, and its port. Each port has
// its own QP 0 and QP 1, for management.
func qpNumber(q netlinkrdma.QP) (number, port uint32) {
	if q.Type <= 1 {
		return q.LQPN | uint32(q.Port)<<24, uint32(q.Port)
	}
	return q.LQPN, uint32(q.Port)
}

// objectKinds has all kinds, by operation.
var objectKinds = map[uint16]objectKind{
	abi.RDMA_NLDEV_CMD_RES_QP_GET:      qpKind,
	abi.RDMA_NLDEV_CMD_RES_CM_ID_GET:   cmIDKind,
	abi.RDMA_NLDEV_CMD_RES_CQ_GET:      cqKind,
	abi.RDMA_NLDEV_CMD_RES_MR_GET:      mrKind,
	abi.RDMA_NLDEV_CMD_RES_PD_GET:      pdKind,
	abi.RDMA_NLDEV_CMD_RES_CTX_GET:     contextKind,
	abi.RDMA_NLDEV_CMD_RES_SRQ_GET:     srqKind,
	abi.RDMA_NLDEV_CMD_RES_QP_GET_RAW:  qpKind.asRaw(),
	abi.RDMA_NLDEV_CMD_RES_CQ_GET_RAW:  cqKind.asRaw(),
	abi.RDMA_NLDEV_CMD_RES_MR_GET_RAW:  mrKind.asRaw(),
	abi.RDMA_NLDEV_CMD_RES_SRQ_GET_RAW: srqKind.asRaw(),
}

func (k objectKind) asRaw() objectKind {
	k.raw = true
	return k
}

// objectGet answers with one object, or with all objects in several replies, as the kernel
// does if one reply is too small.
func (k *Kernel) objectGet(req netlinkrdma.Request, kind objectKind) ([][]byte, error) {
	i, err := k.device(req)
	if err != nil {
		return nil, err
	}
	d, o := k.Devices[i], k.Objects[k.Devices[i].Index]
	port := number(req, abi.RDMA_NLDEV_ATTR_PORT_INDEX)
	if port > uint32(d.Ports) || kind.raw && o.Raw == nil {
		return nil, syscall.EINVAL
	}
	list := kind.list(o)
	if kind.raw {
		for i := range list {
			list[i].attrs = put(nil, abi.RDMA_NLDEV_ATTR_RES_RAW, o.Raw)
		}
	}
	if req.Dump {
		return kind.dump(d, list, port), nil
	}
	if (port != 0) != kind.perPort {
		return nil, syscall.EINVAL
	}
	for _, one := range list {
		if one.number == number(req, kind.id) {
			if kind.perPort && one.port != port {
				return nil, syscall.EAGAIN
			}
			return [][]byte{append(handle(d), one.attrs...)}, nil
		}
	}
	return nil, syscall.ENOENT
}

const entriesAReply = 20

func (k objectKind) dump(d netlinkrdma.Device, list []object, port uint32) [][]byte {
	var replies [][]byte
	for len(list) > 0 {
		var table []byte
		n := min(len(list), entriesAReply)
		for _, one := range list[:n] {
			if port == 0 || !k.perPort || one.port == port {
				table = put(table, k.entry, one.attrs)
			}
		}
		list = list[n:]
		replies = append(replies, put(handle(d), k.table, table))
	}
	return replies
}

// handle returns the beginning of every reply about a device.
func handle(d netlinkrdma.Device) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_DEV_INDEX, d.Index)
	return putString(b, abi.RDMA_NLDEV_ATTR_DEV_NAME, d.Name)
}

// number returns a u32 attribute of a request, or 0 if it is missing.
func number(req netlinkrdma.Request, typ uint16) uint32 {
	for _, a := range req.Attrs {
		if a.Type == typ && len(a.Value) == 4 {
			return binary.NativeEndian.Uint32(a.Value)
		}
	}
	return 0
}
