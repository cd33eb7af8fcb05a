package rdmacm

import (
	"encoding/binary"
	"math"
	"math/bits"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// Path is a path from one port to another, as a record of subnet administration (PathRecord, section
// 15.2.5.16 of the InfiniBand specification). On RoCE the kernel synthesizes it, without LIDs and with
// most fields 0.
//
// C: struct ibv_path_record
type Path struct {
	ServiceID    uint64
	DGID, SGID   verbs.GID
	DLID, SLID   uint16
	RawTraffic   bool
	FlowLabel    uint32 // 20 bits
	HopLimit     uint8
	TrafficClass uint8
	Reversible   bool
	NumPaths     uint8 // 7 bits
	PKey         uint16
	QoSClass     uint16 // 12 bits
	SL           uint8  // service level, 4 bits

	// A selector says how to compare the field after it: 0 greater than, 1 less than, 2 equal, 3 the
	// largest available (for lifetimes the smallest).
	MTUSelector      uint8
	MTU              verbs.MTU
	RateSelector     uint8
	Rate             uint8 // as PortInfo codes rates: 2 is 2.5 Gbit/s, 3 is 10 Gbit/s, ...
	LifeTimeSelector uint8
	LifeTime         time.Duration // a power of two times 4.096 µs, up to 146 years; others are rounded up
	Preference       uint8         // 0 is best
}

// pathSize is the size of a path record on the wire, in bytes.
const pathSize = 64

// parsePath reads a record, most significant byte first.
func parsePath(b [pathSize]byte) Path {
	be := binary.BigEndian
	flow, qos := be.Uint32(b[44:]), be.Uint16(b[52:])
	return Path{
		ServiceID: be.Uint64(b[0:]),
		DGID:      verbs.GID(b[8:24]), SGID: verbs.GID(b[24:40]),
		DLID: be.Uint16(b[40:]), SLID: be.Uint16(b[42:]),
		RawTraffic: flow>>31 != 0, FlowLabel: flow >> 8 & (1<<20 - 1), HopLimit: uint8(flow),
		TrafficClass: b[48], Reversible: b[49]>>7 != 0, NumPaths: b[49] & 0x7f,
		PKey: be.Uint16(b[50:]), QoSClass: qos >> 4, SL: uint8(qos & 0xf),
		MTUSelector: b[54] >> 6, MTU: verbs.MTU(b[54] & 0x3f),
		RateSelector: b[55] >> 6, Rate: b[55] & 0x3f,
		LifeTimeSelector: b[56] >> 6, LifeTime: lifeTime(b[56] & 0x3f),
		Preference: b[57],
	}
}

const lifeTimeUnit = 4096 * time.Nanosecond

func lifeTime(code uint8) time.Duration {
	if code > 50 { // centuries
		return math.MaxInt64
	}
	return lifeTimeUnit << code
}

// lifeTimeCode is the inverse of lifeTime, and rounds up.
func lifeTimeCode(d time.Duration) uint8 {
	return uint8(bits.Len64(uint64(max(d-1, 0) / lifeTimeUnit)))
}

// wire returns the record of a path. It drops bits beyond a field's width.
func (p *Path) wire() (b [pathSize]byte) {
	be := binary.BigEndian
	be.PutUint64(b[0:], p.ServiceID)
	copy(b[8:24], p.DGID[:])
	copy(b[24:40], p.SGID[:])
	be.PutUint16(b[40:], p.DLID)
	be.PutUint16(b[42:], p.SLID)
	be.PutUint32(b[44:], uint32(flag(p.RawTraffic))<<31|p.FlowLabel&(1<<20-1)<<8|uint32(p.HopLimit))
	b[48], b[49] = p.TrafficClass, flag(p.Reversible)<<7|p.NumPaths&0x7f
	be.PutUint16(b[50:], p.PKey)
	be.PutUint16(b[52:], p.QoSClass<<4|uint16(p.SL&0xf))
	b[54] = p.MTUSelector<<6 | uint8(p.MTU)&0x3f
	b[55] = p.RateSelector<<6 | p.Rate&0x3f
	b[56] = p.LifeTimeSelector<<6 | lifeTimeCode(p.LifeTime)
	b[57] = p.Preference
	return b
}

// maxPaths is how many paths fit into an answer.
const maxPaths = 6

// QueryPaths returns the paths that ResolveRoute found. The first one is in use. iWARP has none.
//
// C: id->route.path_rec
func (id *ID) QueryPaths() ([]Path, error) {
	type answer struct {
		abi.RdmaUcmQueryPathResp
		paths [maxPaths]abi.IbPathRecData
	}
	r := newRequest[abi.RdmaUcmQuery, answer](abi.RDMA_USER_CM_CMD_QUERY)
	defer r.free()
	r.body.Response, r.body.Id, r.body.Option = r.respAddr(), id.handle, abi.RDMA_USER_CM_QUERY_PATH
	if err := id.channel().file.Command(r.in(), r.out()); err != nil {
		return nil, commandError("query the paths of", id, closedError(err))
	}
	paths := make([]Path, min(r.resp.NumPaths, maxPaths))
	for i := range paths {
		paths[i] = parsePath(bytesOfRecord(r.resp.paths[i].PathRec))
	}
	return paths, nil
}

// SetPath sets the path that the connection uses. It replaces ResolveRoute. EventRouteResolved follows.
// The ID's address must be resolved, and the transport must be InfiniBand or RoCE.
//
// C: rdma_set_option(RDMA_OPTION_IB_PATH)
func (id *ID) SetPath(p *Path) error {
	record := p.wire()
	data := abi.IbPathRecData{Flags: usedPath, PathRec: view[[pathSize / 4]uint32](record[:])}
	return hinted("set option PATH", id, setOption(id, abi.RDMA_OPTION_IB, abi.RDMA_OPTION_IB_PATH, data), map[syscall.Errno]string{
		syscall.EINVAL: "the ID's address is not resolved, its route already is, or the transport has no paths",
	})
}

// usedPath has the flags that the kernel requires of a path: for data and for connection management,
// primary, bidirectional.
const usedPath = 1<<0 | 1<<1 | 1<<3 | 1<<5

// bytesOfRecord returns the bytes of a record, which the structure holds as words.
func bytesOfRecord(words [pathSize / 4]uint32) (b [pathSize]byte) {
	for i, word := range words {
		binary.NativeEndian.PutUint32(b[4*i:], word)
	}
	return b
}
