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

// attr is what the kernel wants of an attribute.
type attr struct {
	id       uint16
	kind     kind
	min, max int
	must     bool
}

type method struct {
	name  string
	run   func(*Kernel, *ioctl.Request) error
	attrs []attr
}

const anyLen = 1<<16 - 1

func in(id uint16, size int) attr      { return attr{id, ptrIn, size, size, true} }
func inMin(id uint16, size int) attr   { return attr{id, ptrIn, size, anyLen, true} }
func out(id uint16, size int) attr     { return attr{id, ptrOut, size, size, true} }
func outMin(id uint16, size int) attr  { return attr{id, ptrOut, size, anyLen, true} }
func enum(id uint16) attr              { return attr{id, constIn, 8, 8, true} }
func flags(id uint16) attr             { return attr{id, flagsIn, 4, 8, true} }
func obj(id uint16) attr               { return attr{id, handle, 0, 0, true} }
func (a attr) optional() attr          { a.must = false; return a }
func destroys(id uint16) []attr        { return []attr{obj(id)} }
func udata(attrs ...attr) []attr       { return append(attrs, uhwIn, uhwOut) }
func (a attr) fits(length uint16) bool { return int(length) >= a.min && int(length) <= a.max }
func (k kind) byValue(length int) bool { return k == ptrIn && length <= 8 }

var (
	uhwIn  = attr{abi.UVERBS_ATTR_UHW_IN, ptrIn, 0, anyLen, false}
	uhwOut = attr{abi.UVERBS_ATTR_UHW_OUT, ptrOut, 0, anyLen, false}
)

// check refuses a request as the kernel's dispatcher does. It allocates nothing.
func (m *method) check(r *ioctl.Request, own map[uint16]bool) error {
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

func (m *method) index(id uint16) int {
	for n := range m.attrs {
		if m.attrs[n].id == id {
			return n
		}
	}
	return -1
}

// checkMemory finds addresses where the kernel would look for a value, and the
// other way round.
func (a *attr) checkMemory(r *ioctl.Request, wire *abi.IbUverbsAttr) error {
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
