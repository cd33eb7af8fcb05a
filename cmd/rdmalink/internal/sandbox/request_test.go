package sandbox

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/fakeverbs"
)

// room is a process's memory, from base on.
type room []byte

const base = 0x10000

func (r room) at(addr uint64, n int) ([]byte, error) {
	if addr < base || addr-base > uint64(len(r)) || uint64(n) > uint64(len(r))-(addr-base) {
		return nil, syscall.EFAULT
	}
	return r[addr-base:][:n], nil
}

func (r room) read(addr uint64, b []byte) error {
	from, err := r.at(addr, len(b))
	copy(b, from)
	return err
}

func (r room) write(addr uint64, b []byte) error {
	to, err := r.at(addr, len(b))
	copy(to, b)
	return err
}

// issue writes a request at the beginning, and buffers from offset 512 on.
func issue(h abi.IbUverbsIoctlHdr, attrs ...abi.IbUverbsAttr) room {
	r := make(room, 4096)
	h.NumAttrs, h.Length = uint16(len(attrs)), uint16(headerSize+attrSize*len(attrs))
	copy(r, abi.Bytes(&h))
	for i := range attrs {
		copy(r[headerSize+i*attrSize:], abi.Bytes(&attrs[i]))
	}
	return r
}

const must = abi.UVERBS_ATTR_F_MANDATORY

func getContext() room {
	return issue(abi.IbUverbsIoctlHdr{ObjectId: abi.UVERBS_OBJECT_DEVICE, MethodId: abi.UVERBS_METHOD_GET_CONTEXT, DriverId: abi.RDMA_DRIVER_RXE},
		abi.IbUverbsAttr{AttrId: abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, Len: 4, Flags: must, Data: base + 512},
		abi.IbUverbsAttr{AttrId: 0x0fff, Len: 4, Data: 1}) // unknown, and not mandatory
}

// carry returns a function that carries out the request on a kernel.
func carry(k *fakeverbs.Kernel, r room) error {
	q, err := parse(r, base)
	if err != nil {
		return err
	}
	defer q.Free()
	if err := q.Do(k); err != nil {
		return err
	}
	return q.reply(r)
}

// TestRequestAnswers checks that small outputs are passed by address, and marked.
func TestRequestAnswers(t *testing.T) {
	r := getContext()
	if err := carry(fakeverbs.New(abi.RDMA_DRIVER_RXE), r); err != nil {
		t.Fatal(err)
	}
	if n := binary.NativeEndian.Uint32(r[512:]); n != fakeverbs.CompVectors {
		t.Errorf("%d completion vectors", n)
	}
	if flags := binary.NativeEndian.Uint16(r[headerSize+4:]); flags != must|abi.UVERBS_ATTR_F_VALID_OUTPUT {
		t.Errorf("flags %#x", flags)
	}
}

// TestRequestHandles checks that a new object's handle is returned in the
// attribute.
func TestRequestHandles(t *testing.T) {
	k := fakeverbs.New(abi.RDMA_DRIVER_RXE)
	if err := carry(k, getContext()); err != nil {
		t.Fatal(err)
	}
	alloc := func() room {
		return issue(abi.IbUverbsIoctlHdr{ObjectId: abi.UVERBS_OBJECT_ASYNC_EVENT, DriverId: abi.RDMA_DRIVER_RXE},
			abi.IbUverbsAttr{AttrId: abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, Flags: must, Data: 1<<64 - 1})
	}
	first, second := alloc(), alloc()
	if err := carry(k, first); err != nil {
		t.Fatal(err)
	}
	if err := carry(k, second); err != nil {
		t.Fatal(err)
	}
	handle := func(r room) uint64 { return binary.NativeEndian.Uint64(r[headerSize+8:]) }
	if handle(second) != handle(first)+1 {
		t.Errorf("descriptors %d and %d", handle(first), handle(second))
	}
}

func TestRequestRefused(t *testing.T) {
	for what, c := range map[string]struct {
		change func(r room)
		want   error
	}{
		"length":            {func(r room) { r[0]++ }, syscall.EINVAL},
		"too many":          {func(r room) { r[6] = 255; binary.NativeEndian.PutUint16(r, headerSize+255*attrSize) }, syscall.EINVAL},
		"reserved":          {func(r room) { r[8] = 1 }, syscall.EPROTONOSUPPORT},
		"reserved as well":  {func(r room) { r[20] = 1 }, syscall.EPROTONOSUPPORT},
		"driver":            {func(r room) { r[16] = 18 }, syscall.EINVAL},
		"object":            {func(r room) { r[2] = 99 }, syscall.EPROTONOSUPPORT},
		"output's length":   {func(r room) { r[headerSize+2] = 8 }, syscall.EINVAL},
		"output's address":  {func(r room) { binary.NativeEndian.PutUint64(r[headerSize+8:], 5) }, syscall.EFAULT},
		"unknown attribute": {func(r room) { r[headerSize+attrSize+4] = must }, syscall.EPROTONOSUPPORT},
	} {
		r := getContext()
		c.change(r)
		if err := carry(fakeverbs.New(abi.RDMA_DRIVER_RXE), r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if _, err := parse(make(room, 10), base); err != syscall.EFAULT {
		t.Error(err)
	}
}

// TestRequestBeforeContext checks that a program that skips GET_CONTEXT gets EINVAL, as on Linux, also from methods of
// drivers, whose models have no state before.
func TestRequestBeforeContext(t *testing.T) {
	for name, r := range map[string]room{
		"UAR_OBJ_ALLOC": issue(abi.IbUverbsIoctlHdr{ObjectId: abi.MLX5_IB_OBJECT_UAR, MethodId: abi.MLX5_IB_METHOD_UAR_OBJ_ALLOC, DriverId: abi.RDMA_DRIVER_MLX5},
			abi.IbUverbsAttr{AttrId: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, Flags: must},
			abi.IbUverbsAttr{AttrId: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE, Len: 8, Flags: must, Data: abi.MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC},
			abi.IbUverbsAttr{AttrId: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, Len: 8, Flags: must, Data: base + 512},
			abi.IbUverbsAttr{AttrId: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, Len: 4, Flags: must, Data: base + 520},
			abi.IbUverbsAttr{AttrId: abi.MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, Len: 4, Flags: must, Data: base + 524}),
		"ASYNC_EVENT_ALLOC": issue(abi.IbUverbsIoctlHdr{ObjectId: abi.UVERBS_OBJECT_ASYNC_EVENT, DriverId: abi.RDMA_DRIVER_MLX5},
			abi.IbUverbsAttr{AttrId: abi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, Flags: must}),
	} {
		k := fakeverbs.New(abi.RDMA_DRIVER_MLX5)
		if err := carry(k, r); err != syscall.EINVAL {
			t.Errorf("%s: %v", name, err)
		}
		_ = k.Close()
	}
}

// FuzzRequest checks that no bytes of a process harm the supervisor.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(getContext()))
	for object := range uint16(17) {
		for method := range uint16(7) {
			f.Add([]byte(issue(abi.IbUverbsIoctlHdr{ObjectId: object, MethodId: method, DriverId: abi.RDMA_DRIVER_RXE},
				abi.IbUverbsAttr{Len: 8, Flags: must, Data: base + 600}, abi.IbUverbsAttr{AttrId: 1, Len: 200, Data: base + 600},
				abi.IbUverbsAttr{AttrId: 2, Len: 8, Data: 3})))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		k := fakeverbs.New(abi.RDMA_DRIVER_RXE)
		_ = carry(k, getContext())
		_ = carry(k, append(room(nil), b...))
		_ = k.Close()
	})
}
