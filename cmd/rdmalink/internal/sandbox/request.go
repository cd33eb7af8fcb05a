package sandbox

import (
	"encoding/binary"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
	_ "github.com/goverbs/goverbs/internal/fakeverbs/models"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// memory is the memory of a process, to which its requests point.
type memory interface {
	read(addr uint64, b []byte) error
	write(addr uint64, b []byte) error
}

// request is an RDMA_VERBS_IOCTL of a process, with a copy in the supervisor's
// memory.
type request struct {
	*ioctl.Request
	addr   uint64 // of the header
	header abi.IbUverbsIoctlHdr
	attrs  []abi.IbUverbsAttr
	kinds  []fakeverbs.AttrKind
	outs   map[int][]byte // by the attribute's place
}

const (
	headerSize = 24
	attrSize   = 16
)

// parse reads a request. It returns the same errors as the kernel's dispatcher.
func parse(m memory, addr uint64) (*request, error) {
	q := &request{addr: addr, outs: make(map[int][]byte)}
	if err := m.read(addr, abi.Bytes(&q.header)); err != nil {
		return nil, syscall.EFAULT
	}
	h := &q.header
	switch {
	case int(h.Length) != headerSize+attrSize*int(h.NumAttrs), h.NumAttrs > ioctl.MaxAttrs:
		return nil, syscall.EINVAL
	case h.Reserved1 != 0 || h.Reserved2 != 0:
		return nil, syscall.EPROTONOSUPPORT
	}
	q.attrs = make([]abi.IbUverbsAttr, h.NumAttrs)
	for i := range q.attrs {
		if err := m.read(addr+headerSize+uint64(i)*attrSize, abi.Bytes(&q.attrs[i])); err != nil {
			return nil, syscall.EFAULT
		}
	}
	q.Request = ioctl.New(h.DriverId, h.ObjectId, h.MethodId)
	for i := range q.attrs {
		if err := q.add(m, i); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// add copies an attribute and the data that it points to.
func (q *request) add(m memory, i int) error {
	a := &q.attrs[i]
	kind := fakeverbs.KindOf(q.header.DriverId, q.header.ObjectId, q.header.MethodId, a.AttrId)
	q.kinds = append(q.kinds, kind)
	switch {
	case kind == fakeverbs.AttrUnknown && a.Flags&abi.UVERBS_ATTR_F_MANDATORY == 0: // as the kernel does
	case kind == fakeverbs.AttrUnknown, kind == fakeverbs.AttrIn && a.Len <= 8:
		var b [8]byte
		binary.NativeEndian.PutUint64(b[:], a.Data)
		q.InBytes(a.AttrId, b[:min(a.Len, 8)])
	case kind == fakeverbs.AttrObject && a.Len == 0:
		q.object(a)
	case kind == fakeverbs.AttrObject: // has a length, which is refused
		q.InBytes(a.AttrId, make([]byte, a.Len))
	default:
		b := make([]byte, a.Len)
		if err := m.read(a.Data, b); err != nil {
			return syscall.EFAULT
		}
		if kind == fakeverbs.AttrIn {
			q.InBytes(a.AttrId, b)
			return nil
		}
		q.OutBytes(a.AttrId, b)
		q.outs[i] = b
	}
	return nil
}

// object takes over a handle, of 32 bits in all kernels, or a descriptor.
func (q *request) object(a *abi.IbUverbsAttr) {
	if a.Data>>32 != 0 && a.Data>>32 != 1<<32-1 {
		a.Data = 1<<32 - 1 // no handle
	}
	q.Handle(a.AttrId, uint32(a.Data))
}

// reply copies the answers to the process.
func (q *request) reply(m memory) error {
	for i, b := range q.outs {
		if err := m.write(q.attrs[i].Data, b); err != nil {
			return syscall.EFAULT
		}
		q.attrs[i].Flags |= abi.UVERBS_ATTR_F_VALID_OUTPUT
	}
	for i := range q.attrs {
		if q.kinds[i] == fakeverbs.AttrObject {
			q.attrs[i].Data = uint64(q.Created(q.attrs[i].AttrId))
		}
		if err := m.write(q.addr+headerSize+uint64(i)*attrSize, abi.Bytes(&q.attrs[i])); err != nil {
			return syscall.EFAULT
		}
	}
	return nil
}
