package ioctl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/wait"
	"github.com/goverbs/goverbs/mmap"
)

// file passes every request to a function.
type file func(*Request) error

func (f file) Ioctl(r *Request) error                        { return f(r) }
func (file) Map(int64, int, mmap.Prot) (*mmap.Region, error) { return nil, syscall.ENODEV }
func (file) PageSize() int                                   { return 4096 }
func (file) MapPage(int64, int) (*mmap.Page, error)          { return nil, syscall.EINVAL }

func (file) Alloc(int, *mmap.AnonymousOptions) (*mmap.Region, error) {
	return nil, syscall.ENOMEM
}
func (file) Lend(uint64, []byte) {}
func (file) Return(uint64)       {}

func (file) Events(int32) (wait.Source, error) { return nil, syscall.EBADF }
func (file) Close() error                      { return nil }
func accept(*Request) error                    { return nil }
func wireBytes(r *Request) []byte {
	b := bytes.Clone(abi.Bytes(r.hdr))
	for i := range r.attrs {
		b = append(b, abi.Bytes(&r.attrs[i])...)
	}
	return b[:r.hdr.Length]
}

func attrBytes(id, length, flags uint16, data uint64) (b []byte) {
	b = binary.NativeEndian.AppendUint16(b, id)
	b = binary.NativeEndian.AppendUint16(b, length)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = binary.NativeEndian.AppendUint16(b, 0)
	return binary.NativeEndian.AppendUint64(b, data)
}

// TestWire compares requests with the bytes that the kernel expects.
func TestWire(t *testing.T) {
	big := [9]byte{1, 2, 3}
	five := [5]byte{1, 2, 3, 4, 5}
	eight := uint64(0x0102030405060708)
	four := uint32(7)
	addr := func(b []byte) uint64 { r := New(0, 0, 0); r.InBytes(0, b); return r.attrs[0].Data }
	for _, c := range []struct {
		name  string
		build func(*Request)
		want  []byte
	}{
		{"nothing", func(*Request) {}, nil},
		{"U32", func(r *Request) { r.U32(3, 1<<31) }, attrBytes(3, 4, 1, 1<<31)},
		{"U64", func(r *Request) { r.U64(3, 1<<63) }, attrBytes(3, 8, 1, 1<<63)},
		{"Const", func(r *Request) { r.Const(3, 2) }, attrBytes(3, 8, 1, 2)},
		{"Flags", func(r *Request) { r.Flags(3, 2) }, attrBytes(3, 4, 1, 2)},
		{"Handle", func(r *Request) { r.Handle(3, 9) }, attrBytes(3, 0, 1, 9)},
		{"FD", func(r *Request) { r.FD(3, -1) }, attrBytes(3, 0, 1, 1<<64-1)},
		{"NewObject", func(r *Request) { r.NewObject(3) }, attrBytes(3, 0, 1, 0)},
		{"In of 5 bytes", func(r *Request) { In(r, 3, &five) }, attrBytes(3, 5, 1, 0x0504030201)},
		{"In of 8 bytes", func(r *Request) { In(r, 3, &eight) }, attrBytes(3, 8, 1, eight)},
		{"In of 9 bytes", func(r *Request) { In(r, 3, &big) }, attrBytes(3, 9, 1, addr(big[:]))},
		{"InBytes of none", func(r *Request) { r.InBytes(3, nil) }, nil},
		{"OutBytes of none", func(r *Request) { r.OutBytes(3, nil) }, nil},
		{"Out of 4 bytes", func(r *Request) { Out(r, 3, &four) }, attrBytes(3, 4, 1, 0)},
		{"two", func(r *Request) { r.U32(1, 2); r.Handle(3, 4) }, append(attrBytes(1, 4, 1, 2), attrBytes(3, 0, 1, 4)...)},
	} {
		r := New(18, 4, 1)
		c.build(r)
		if err := r.Do(file(accept)); err != nil {
			t.Fatal(err)
		}
		got := bytes.Clone(wireBytes(r))
		if c.name == "Out of 4 bytes" { // always by address
			if r.attrs[0].Data == 0 || r.attrs[0].Data == 7 {
				t.Errorf("%s: data %#x", c.name, r.attrs[0].Data)
			}
			clear(got[hdrSize+8:])
		}
		var want []byte
		for _, v := range []uint16{uint16(24 + len(c.want)), 4, 1, uint16(len(c.want) / 16)} {
			want = binary.NativeEndian.AppendUint16(want, v)
		}
		want = binary.NativeEndian.AppendUint64(want, 0)
		want = binary.NativeEndian.AppendUint32(want, 18)
		want = append(binary.NativeEndian.AppendUint32(want, 0), c.want...)
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", c.name, got, want)
		}
	}
}

// TestBothSides sends values through a request and back.
func TestBothSides(t *testing.T) {
	type big struct{ A, B, C uint32 }
	in, small := big{1, 2, 3}, uint32(4)
	var out big
	var list [3]uint64
	r := Write(18, Extended(9), &in)
	Out(r, abi.UVERBS_ATTR_CORE_OUT, &out)
	r.Driver(abi.Bytes(&small), abi.Bytes(&list))
	r.NewObject(7)
	err := r.Do(file(func(r *Request) error {
		if c, ok := r.Command(); !ok || c != 9|abi.IB_USER_VERBS_CMD_FLAG_EXTENDED {
			t.Errorf("command %#x", c)
		}
		var got big
		var uhw uint32
		if !Argument(r, abi.UVERBS_ATTR_CORE_IN, &got) || got != in || !Argument(r, abi.UVERBS_ATTR_UHW_IN, &uhw) || uhw != 4 {
			t.Errorf("%+v, %d", got, uhw)
		}
		got.A = 10
		if !Answer(r, abi.UVERBS_ATTR_CORE_OUT, &got) || Answer(r, abi.UVERBS_ATTR_CORE_OUT, &[13]byte{}) || Answer(r, 99, &got) {
			t.Error("answer")
		}
		if !Answer(r, abi.UVERBS_ATTR_UHW_OUT, &[3]uint64{5, 6, 7}) {
			t.Error("driver's answer")
		}
		r.SetObject(7, 1<<31)
		return nil
	}))
	if err != nil || out != (big{10, 2, 3}) || list != [3]uint64{5, 6, 7} || r.Created(7) != 1<<31 || r.Created(8) != ^uint32(0) {
		t.Error(err, out, list, r.Created(7))
	}
	if _, ok := New(0, abi.UVERBS_OBJECT_CQ, 0).Command(); ok {
		t.Error("a CQ method carries a command")
	}
}

// TestGrown checks that a request of any size is contiguous, as the kernel reads it, and keeps
// its attributes when it grows.
func TestGrown(t *testing.T) {
	for n := range MaxAttrs + 1 {
		r := New(18, 4, 1)
		for i := range n {
			r.OutBytes(uint16(i), bytes.Repeat([]byte{byte(i)}, 9+i))
		}
		if err := r.Do(file(accept)); err != nil {
			t.Fatal(err)
		}
		if got := unsafe.Slice((*byte)(r.pointer()), r.hdr.Length); !bytes.Equal(got, wireBytes(r)) || len(got) != hdrSize+n*attrSize {
			t.Errorf("%d attributes: % x", n, got)
		}
		for i := range n {
			if b, ok := r.Bytes(uint16(i)); !ok || !bytes.Equal(b, bytes.Repeat([]byte{byte(i)}, 9+i)) {
				t.Errorf("attribute %d of %d: % x", i, n, b)
			}
		}
		if h := r.Header(); h.DriverId != 18 || h.ObjectId != 4 || h.MethodId != 1 || int(h.NumAttrs) != n {
			t.Errorf("%d attributes: %+v", n, h)
		}
	}
}

// TestFree checks that a reused request has nothing of earlier ones, and that Free drops all
// pointers.
func TestFree(t *testing.T) {
	for n := range MaxAttrs + 2 {
		old := New(18, 4, 1)
		for i := range n {
			old.OutBytes(uint16(i), make([]byte, 9))
		}
		_ = old.Do(file(accept))
		old.Free()
		for i, ref := range old.refs[:cap(old.refs)] {
			if ref != nil {
				t.Errorf("reference %d of %d is kept", i, n)
			}
		}
		r := New(1, 2, 3)
		if h := r.Header(); h != (abi.IbUverbsIoctlHdr{DriverId: 1, ObjectId: 2, MethodId: 3}) || len(r.attrs)+len(r.refs) != 0 {
			t.Errorf("after %d attributes: %+v with %d", n, h, len(r.attrs))
		}
		r.Free()
	}
}

// TestTooMuch checks that the kernel refuses a request to which too much was added.
func TestTooMuch(t *testing.T) {
	many := New(0, 0, 0)
	for i := range MaxAttrs {
		many.U32(uint16(i), 1)
	}
	if many.hdr.Reserved1 != 0 {
		t.Error("a full request is refused")
	}
	many.U32(MaxAttrs, 1)
	wide := New(0, 0, 0)
	wide.OutBytes(0, make([]byte, 1<<16))
	pointers := New(0, 0, 0)
	for i := range MaxAttrs + 1 {
		pointers.OutBytes(uint16(i), make([]byte, 9))
	}
	for _, r := range []*Request{many, wide, pointers} {
		if r.hdr.Reserved1 == 0 {
			t.Error("too much goes out")
		}
	}
}

// TestKeepsMemory runs the collector while only a request refers to a buffer.
func TestKeepsMemory(t *testing.T) {
	r := New(0, 0, 0)
	func() {
		b := bytes.Repeat([]byte{0xa5}, 100)
		r.InBytes(0, b)
	}()
	for range 3 {
		runtime.GC()
		_ = bytes.Repeat([]byte{0}, 100)
	}
	if b, _ := r.Bytes(0); !bytes.Equal(b, bytes.Repeat([]byte{0xa5}, 100)) {
		t.Error("the buffer is gone")
	}
}

func TestReissueAllocatesNothing(t *testing.T) {
	r := Write(18, abi.IB_USER_VERBS_CMD_POST_SEND, &abi.IbUverbsPostSend{})
	Out(r, abi.UVERBS_ATTR_CORE_OUT, new(abi.IbUverbsPostSendResp))
	for _, f := range []File{file(accept), file(func(*Request) error { return syscall.ENOTCONN })} {
		if n := testing.AllocsPerRun(100, func() { _ = r.Do(f) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func TestUnsupported(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.ENOTTY} {
		if !Unsupported(errno) || !Unsupported(fmt.Errorf("wrapped: %w", errno)) {
			t.Error(errno)
		}
	}
	for _, err := range []error{nil, syscall.EINVAL, syscall.ENOENT, syscall.EIO, fmt.Errorf("other")} {
		if Unsupported(err) {
			t.Error(err)
		}
	}
}
