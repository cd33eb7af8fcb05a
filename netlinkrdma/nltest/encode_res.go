package nltest

import (
	"encoding/binary"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/netlinkrdma"
)

// EncodeQP gives the attributes the kernel lists a QP with.
func EncodeQP(q netlinkrdma.QP) []byte {
	var b []byte
	if q.Port != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, q.Port)
	}
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_LQPN, q.LQPN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_PDN, q.PDN)
	b = putOwner(b, q.Owner)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_RQPN, q.RQPN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_RQ_PSN, q.RQPSN)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_SQ_PSN, q.SQPSN)
	if q.PathMigState.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, uint8(q.PathMigState.Value))
	}
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(q.Type))
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_STATE, uint8(q.State))
	if q.Subtype != "" {
		b = putString(b, abi.RDMA_NLDEV_ATTR_RES_SUBTYPE, q.Subtype)
	}
	return putDriver(b, q.Driver)
}

// EncodeCMID gives the attributes the kernel lists a CM id with.
func EncodeCMID(m netlinkrdma.CMID) []byte {
	var b []byte
	if m.Port != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_PORT_INDEX, m.Port)
	}
	if m.LQPN != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_LQPN, m.LQPN)
	}
	if m.QPType.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(m.QPType.Value))
	}
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_PS, uint32(m.PS))
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_STATE, uint8(m.State))
	b = putAddr(b, abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR, m.Src)
	b = putAddr(b, abi.RDMA_NLDEV_ATTR_RES_DST_ADDR, m.Dst)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_CM_IDN, m.CMIDN)
	return putDriver(putOwner(b, m.Owner), m.Driver)
}

// EncodeCQ gives the attributes the kernel lists a CQ with.
func EncodeCQ(q netlinkrdma.CQ) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_CQE, q.CQE)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_USECNT, q.Users)
	if q.PollContext.Known {
		b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_POLL_CTX, uint8(q.PollContext.Value))
	}
	b = putOptBool(b, abi.RDMA_NLDEV_ATTR_DEV_DIM, q.AdaptiveModeration)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_CQN, q.CQN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_CTXN, q.CTXN)
	return putDriver(putOwner(b, q.Owner), q.Driver)
}

// EncodeMR gives the attributes the kernel lists an MR with.
func EncodeMR(m netlinkrdma.MR) []byte {
	var b []byte
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_RKEY, m.RKey)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_LKEY, m.LKey)
	if m.IOVA.Known {
		b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_IOVA, m.IOVA.Value)
	}
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_MRLEN, m.Length)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_MRN, m.MRN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_PDN, m.PDN)
	return putDriver(putOwner(b, m.Owner), m.Driver)
}

// EncodePD gives the attributes the kernel lists a PD with.
func EncodePD(p netlinkrdma.PD) []byte {
	var b []byte
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, p.LocalDMALKey)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY, p.UnsafeGlobalRKey)
	b = putUint64(b, abi.RDMA_NLDEV_ATTR_RES_USECNT, p.Users)
	b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_PDN, p.PDN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_CTXN, p.CTXN)
	return putDriver(putOwner(b, p.Owner), p.Driver)
}

// EncodeContext gives the attributes the kernel lists a context with.
func EncodeContext(x netlinkrdma.Context) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_CTXN, x.CTXN)
	return putDriver(putOwner(b, x.Owner), x.Driver)
}

// EncodeSRQ gives the attributes the kernel lists an SRQ with. Its table of
// QPs has the nested flag, as in the kernel.
func EncodeSRQ(s netlinkrdma.SRQ) []byte {
	b := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_SRQN, s.SRQN)
	b = putUint8(b, abi.RDMA_NLDEV_ATTR_RES_TYPE, uint8(s.Type))
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_PDN, s.PDN)
	b = putOpt(b, abi.RDMA_NLDEV_ATTR_RES_CQN, s.CQN)
	b = putQPRanges(b, s.LQPN)
	return putDriver(putOwner(b, s.Owner), s.Driver)
}

func putQPRanges(b []byte, ranges []netlinkrdma.QPRange) []byte {
	var table []byte
	for _, r := range ranges {
		entry := putUint32(nil, abi.RDMA_NLDEV_ATTR_RES_LQPN, r.First)
		if r.First != r.Last {
			entry = putUint32(nil, abi.RDMA_NLDEV_ATTR_MIN_RANGE, r.First)
			entry = putUint32(entry, abi.RDMA_NLDEV_ATTR_MAX_RANGE, r.Last)
		}
		table = put(table, nested|abi.RDMA_NLDEV_ATTR_RES_QP_ENTRY, entry)
	}
	return put(b, nested|abi.RDMA_NLDEV_ATTR_RES_QP, table)
}

const nested = 0x8000 // NLA_F_NESTED

func putOpt(b []byte, typ uint16, v netlinkrdma.Opt[uint32]) []byte {
	if v.Known {
		b = putUint32(b, typ, v.Value)
	}
	return b
}

func putOwner(b []byte, o netlinkrdma.Owner) []byte {
	if o.Kernel != "" {
		return putString(b, abi.RDMA_NLDEV_ATTR_RES_KERN_NAME, o.Kernel)
	}
	if o.TID != 0 {
		b = putUint32(b, abi.RDMA_NLDEV_ATTR_RES_PID, o.TID)
	}
	return b
}

// putAddr puts a sockaddr_storage; families are numbered as on linux.
func putAddr(b []byte, typ uint16, a netlinkrdma.CMAddr) []byte {
	if a.Family == 0 {
		return b
	}
	storage := make([]byte, 128)
	copy(storage, a.Raw)
	binary.NativeEndian.PutUint16(storage, a.Family)
	if a.AddrPort.IsValid() {
		port, at := 2, 8
		switch a.Family {
		case 2: // AF_INET
			at = 4
		case 27: // AF_IB: the port ends the service id
			port = 30
		}
		binary.BigEndian.PutUint16(storage[port:], a.AddrPort.Port())
		copy(storage[at:], a.AddrPort.Addr().AsSlice())
	}
	return put(b, typ, storage)
}

func putDriver(b []byte, attrs []netlinkrdma.DriverAttr) []byte {
	if len(attrs) == 0 {
		return b
	}
	var table []byte
	for _, d := range attrs {
		table = putString(table, abi.RDMA_NLDEV_ATTR_DRIVER_STRING, d.Name)
		if d.Hex {
			table = putUint8(table, abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE, abi.RDMA_NLDEV_PRINT_TYPE_HEX)
		}
		switch d.Kind {
		case netlinkrdma.DriverString:
			table = putString(table, uint16(d.Kind), d.Text)
		case netlinkrdma.DriverS32, netlinkrdma.DriverU32:
			table = putUint32(table, uint16(d.Kind), uint32(d.Number))
		default: // without padding, as on amd64: iproute2's rdma stops there
			table = put(table, uint16(d.Kind), binary.NativeEndian.AppendUint64(nil, d.Number))
		}
	}
	return put(b, abi.RDMA_NLDEV_ATTR_DRIVER, table)
}
