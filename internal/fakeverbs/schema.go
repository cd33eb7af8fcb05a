package fakeverbs

import (
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
	"github.com/goverbs/goverbs/internal/ioctl"
)

type kind int

const (
	ptrIn  kind = iota // by value up to 8 bytes
	ptrOut             // always by address
	constIn
	flagsIn
	handle // of an object or a descriptor, existing or new
)

// MethodAttr is what the kernel wants of an attribute.
type MethodAttr struct {
	id       uint16
	kind     kind
	min, max int
	must     bool
}

type Method struct {
	name  string
	run   func(*Kernel, *ioctl.Request) error
	attrs []MethodAttr
}

// NewMethod makes a method of a driver's own.
func NewMethod(name string, run func(*Kernel, *ioctl.Request) error, attrs []MethodAttr) *Method {
	return &Method{name, run, attrs}
}

const anyLen = 1<<16 - 1

func in(id uint16, size int) MethodAttr      { return MethodAttr{id, ptrIn, size, size, true} }
func inMin(id uint16, size int) MethodAttr   { return MethodAttr{id, ptrIn, size, anyLen, true} }
func Out(id uint16, size int) MethodAttr     { return MethodAttr{id, ptrOut, size, size, true} }
func OutMin(id uint16, size int) MethodAttr  { return MethodAttr{id, ptrOut, size, anyLen, true} }
func Enum(id uint16) MethodAttr              { return MethodAttr{id, constIn, 8, 8, true} }
func flags(id uint16) MethodAttr             { return MethodAttr{id, flagsIn, 4, 8, true} }
func Obj(id uint16) MethodAttr               { return MethodAttr{id, handle, 0, 0, true} }
func (a MethodAttr) Optional() MethodAttr    { a.must = false; return a }
func Destroys(id uint16) []MethodAttr        { return []MethodAttr{Obj(id)} }
func udata(attrs ...MethodAttr) []MethodAttr { return append(attrs, uhwIn, uhwOut) }
func (a MethodAttr) fits(length uint16) bool { return int(length) >= a.min && int(length) <= a.max }
func (k kind) byValue(length int) bool       { return k == ptrIn && length <= 8 }

var (
	uhwIn  = MethodAttr{abi.UVERBS_ATTR_UHW_IN, ptrIn, 0, anyLen, false}
	uhwOut = MethodAttr{abi.UVERBS_ATTR_UHW_OUT, ptrOut, 0, anyLen, false}
)

// check refuses a request as the kernel's dispatcher does. It allocates nothing.
func (m *Method) check(r *ioctl.Request, own map[uint16]bool) error {
	var seen uint64
	attrs := r.Attrs()
	for i := range attrs {
		a := &attrs[i]
		n := m.index(a.AttrId)
		if n < 0 {
			if a.Flags&abi.UVERBS_ATTR_F_MANDATORY != 0 && !own[a.AttrId] {
				return syscall.EPROTONOSUPPORT
			}
			continue
		}
		if seen&(1<<n) != 0 || !m.attrs[n].fits(a.Len) {
			return syscall.EINVAL
		}
		seen |= 1 << n
		if err := m.attrs[n].checkMemory(r, a); err != nil {
			return err
		}
	}
	for n := range m.attrs {
		if m.attrs[n].must && seen&(1<<n) == 0 {
			return syscall.EINVAL
		}
	}
	return nil
}

func (m *Method) index(id uint16) int {
	for n := range m.attrs {
		if m.attrs[n].id == id {
			return n
		}
	}
	return -1
}

// checkMemory finds addresses where the kernel would look for a value, and the
// other way round.
func (a *MethodAttr) checkMemory(r *ioctl.Request, wire *abi.IbUverbsAttr) error {
	b, _ := r.Bytes(wire.AttrId)
	switch {
	case a.kind.byValue(len(b)):
		for i, v := range b {
			if v != byte(wire.Data>>(8*i)) {
				return syscall.EFAULT
			}
		}
	case a.kind == ptrIn || a.kind == ptrOut:
		if wire.Data == 0 && wire.Len > 0 || len(b) != int(wire.Len) {
			return syscall.EFAULT
		}
	}
	return nil
}
