package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
	"github.com/goverbs/goverbs/mmap"
)

// rxe answers as the soft RoCE driver of Linux 6.12.
type rxe struct {
	bare
	k      *Kernel
	offset int64  // of the last queue that was offered
	ahNum  uint32 // of the last address handle
}

// What rxe allows, of rxe_param.h.
const (
	firstRXEQPN   = 17
	firstRXEMW    = 1 << 19 // index in the key
	maxRXEWR      = 1 << 20
	maxRXECQE     = 1<<15 - 1
	maxRXESGE     = 32
	maxRXEInline  = 512
	maxRXESRQSGE  = 27
	maxRXEGIDs    = 1024
	maxRXERDAtom  = 128
	rxeCaps       = 0x1c001223c76
	rxeAccess     = 0xf | abi.IB_UVERBS_ACCESS_MW_BIND | rxeFlush | rxeOptional
	rxeFlush      = abi.IB_UVERBS_ACCESS_FLUSH_GLOBAL | abi.IB_UVERBS_ACCESS_FLUSH_PERSISTENT
	rxeOptional   = 0x3ff00000
	maxRXEMessage = 1 << 31
)

func (*rxe) limits() limits {
	l := bare{}.limits()
	l.caps, l.device.DeviceCapFlags = rxeCaps, rxeCaps&(1<<32-1)
	l.device.MaxSge, l.device.MaxSgeRd, l.device.MaxQpWr = maxRXESGE, maxRXESGE, maxRXEWR
	l.device.MaxCqe, l.device.MaxSrqWr, l.device.MaxSrqSge = maxRXECQE, maxRXEWR, maxRXESRQSGE
	l.device.MaxAh, l.device.MaxMw, l.device.AtomicCap = 1<<15-1, 1<<19-1, 1
	l.device.MaxMcastGrp, l.device.MaxMcastQpAttach, l.device.MaxTotalMcastQpAttach = 8192, 56, 0x70000
	l.device.MaxQpRdAtom, l.device.MaxQpInitRdAtom, l.device.MaxPkeys = maxRXERDAtom, maxRXERDAtom, 64
	l.device.MaxCq, l.device.MaxPd, l.device.MaxMr, l.device.MaxSrq = 1<<20, 1<<20, 1<<19-1, 917503
	l.device.VendorId, l.device.LocalCaAckDelay, l.device.PageSizeCap = 0xffffff, 15, 0xfffff000
	l.port.MaxMsgSz, l.port.GidTblLen, l.port.PkeyTblLen, l.port.Flags = maxRXEMessage, maxRXEGIDs, 1, 1
	l.gids = []abi.IbUverbsGidEntry{gidEntry(LinkLocalGID, 0, abi.IB_UVERBS_GID_TYPE_ROCE_V2),
		gidEntry(IPv4GID, 1, abi.IB_UVERBS_GID_TYPE_ROCE_V2)}
	return l
}

func (*rxe) has(string) bool { return true }

// mmap maps an offer once, whole or less.
func (*rxe) mmap(k *Kernel, offset int64, length int) (*mmap.Region, error) {
	o, ok := k.memory[offset]
	if !ok || roundUp(length) > len(o.bytes) {
		return nil, syscall.EINVAL
	}
	delete(k.memory, offset)
	return o.mapped(roundUp(length))
}

func (m *rxe) createCQ(cq *CQ, r *ioctl.Request) error {
	n, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_CQE)
	if n > maxRXECQE || !room(r, 16) {
		return syscall.EINVAL
	}
	if flags, _ := r.Value(abi.UVERBS_ATTR_CREATE_CQ_FLAGS); flags != 0 {
		return syscall.EOPNOTSUPP
	}
	ring, mi, err := m.newRing(seam{object: cq.id, kind: EntryCQE}, &cq.memory, uint32(n), rxeCQESize)
	if err != nil {
		return err
	}
	cq.RXE, cq.Entries = &RXECQ{cq: cq, ring: ring}, ring.mask
	return uhw(r, abi.RxeCreateCqResp{Mi: mi})
}

func (m *rxe) createSRQ(srq *SRQ, r *ioctl.Request) error {
	if srq.MaxWR == 0 || srq.MaxWR > maxRXEWR || srq.MaxSGE > maxRXESRQSGE || !room(r, 24) {
		return syscall.EINVAL
	}
	srq.MaxSGE = max(srq.MaxSGE, 1)
	ring, mi, err := m.newRing(srq.seam(), &srq.memory, srq.MaxWR, rxeRecvSize(srq.MaxSGE))
	if err != nil {
		return err
	}
	srq.RXE, srq.MaxWR = &RXESRQ{srq: srq, ring: ring}, ring.mask
	return uhw(r, abi.RxeCreateSrqResp{Mi: mi, SrqNum: 0x20001})
}

// regMR makes both keys one; a user gets it from the core's answer.
func (*rxe) regMR(h uint32, _ *ioctl.Request) (uint32, error) { return (h+1)<<8 | 0xa5, nil }

// createAH has two kinds of user: an old one has no room for the number.
func (m *rxe) createAH(ah *AH, r *ioctl.Request) error {
	if !room(r, 8) {
		return nil
	}
	m.ahNum++
	ah.num = m.ahNum
	return uhw(r, abi.RxeCreateAhResp{AhNum: m.ahNum})
}

// room tells whether a driver's answer of n bytes would fit.
func room(r *ioctl.Request, n int) bool {
	b, _ := r.Bytes(abi.UVERBS_ATTR_UHW_OUT)
	return len(b) >= n
}
