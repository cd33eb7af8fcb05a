package rdmacm

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/verbs"
)

// IBAddr is an address of family AF_IB: a port's GID, and which service there. Only an
// InfiniBand link layer has such addresses; RoCE and iWARP have those of IP.
//
// C: struct sockaddr_ib
type IBAddr struct {
	PKey     uint16 // 0xffff: any
	FlowInfo uint32
	GID      verbs.GID
	// ServiceID holds the port space and the port, as [IBServiceID] makes it, or a number
	// of PortSpaceIB that programs agree upon. ServiceMask says which of its bits count.
	ServiceID, ServiceMask uint64
	Scope                  uint64
}

// IBServiceID is the service ID that stands for a port of a port space.
func IBServiceID(ps verbs.PortSpace, port uint16) uint64 { return uint64(ps)<<16 | uint64(port) }

func (a IBAddr) String() string { return fmt.Sprintf("%v service %#x", a.GID, a.ServiceID) }

const (
	afIB       = 27
	sizeOfIB   = 48
	anyBinding = "no InfiniBand port here has that GID; RoCE and iWARP take IP addresses"
)

// put writes a as struct sockaddr_ib and returns its size.
func (a *IBAddr) put(b *[128]byte) uint16 {
	w := binary.NativeEndian.AppendUint16(b[:0], afIB)
	w = binary.BigEndian.AppendUint16(w, a.PKey)
	w = binary.BigEndian.AppendUint32(w, a.FlowInfo)
	w = append(w, a.GID[:]...)
	w = binary.BigEndian.AppendUint64(w, a.ServiceID)
	w = binary.BigEndian.AppendUint64(w, a.ServiceMask)
	binary.NativeEndian.AppendUint64(w, a.Scope)
	return sizeOfIB
}

var ibHints = map[syscall.Errno]string{syscall.ENODEV: anyBinding, syscall.EADDRNOTAVAIL: anyBinding, syscall.EADDRINUSE: "another ID listens for that service"}

// BindIB is Bind to an InfiniBand address.
//
// C: rdma_bind_addr
func (id *ID) BindIB(addr *IBAddr) error {
	err := command(id, abi.RDMA_USER_CM_CMD_BIND, func(b *abi.RdmaUcmBind) {
		b.Id, b.AddrSize = id.handle, addr.put(&b.Addr)
	})
	return hinted("bind", addr, err, ibHints)
}

// ResolveIB is ResolveAddr for InfiniBand addresses; src may be nil.
//
// C: rdma_resolve_addr
func (id *ID) ResolveIB(src, dst *IBAddr, timeout time.Duration) error {
	err := command(id, abi.RDMA_USER_CM_CMD_RESOLVE_ADDR, func(b *abi.RdmaUcmResolveAddr) {
		b.Id, b.TimeoutMs = id.handle, milliseconds(timeout)
		if src != nil {
			b.SrcSize = src.put(&b.SrcAddr)
		}
		b.DstSize = dst.put(&b.DstAddr)
	})
	return hinted("resolve address", dst, err, ibHints)
}
