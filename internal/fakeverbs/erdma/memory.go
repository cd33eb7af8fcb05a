package erdma

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/fakeverbs"
)

const entry = 32 // bytes of any entry

// pin is what the kernel does with a queue: all of it must be there.
func (e *model) pin(what string, addr uint64, length, least uint32) error {
	if addr%erdmaPage != 0 {
		e.note("%s: the queue at %#x is not page-aligned", what, addr)
	}
	if length < least || length == 0 {
		return syscall.EINVAL
	}
	if length%erdmaPage != 0 {
		e.note("%s: the queue has %d bytes, which are no pages", what, length)
	}
	return e.k.User.Check(addr, uint64(length))
}

// wantZeros: a queue begins empty.
func (e *model) wantZeros(what string, addr uint64, length uint32) {
	if e.page == nil {
		e.page = make([]byte, erdmaPage)
	}
	for at := uint64(0); at < uint64(length); at += erdmaPage {
		part := e.page[:min(erdmaPage, uint64(length)-at)]
		if e.k.User.Read(addr+at, part) != nil {
			return
		}
		if i := slices.IndexFunc(part, func(v byte) bool { return v != 0 }); i >= 0 {
			e.note("%s: the new queue is not zeroed at %#x", what, at+uint64(i))
			return
		}
	}
}

// pinRecord is what the kernel does with a slot of doorbell records: it pins the page.
func (e *model) pinRecord(what string, addr uint64) error {
	if addr%16 != 0 {
		e.note("%s: the doorbell record at %#x is not aligned to 16 bytes", what, addr)
	}
	if owner := e.recordOwner(addr); owner != "" {
		e.note("%s: the doorbell record at %#x is that of %s", what, addr, owner)
	}
	page := addr &^ uint64(fakeverbs.PageSize-1)
	return e.k.User.Check(page, uint64(fakeverbs.PageSize))
}

// recordSlot is a slot of an opening's memory.
type recordSlot struct {
	k    *fakeverbs.Kernel
	addr uint64
}

// device is what all openings of an eRDMA device share, beside queue pairs. The
// device's lock guards it.
type device struct {
	records map[recordSlot]string
	lastCQN uint32
	cqs     map[uint32]*CQ
}

func shared(d *fakeverbs.Device) *device { return d.Shared.(*device) }

// keepRecord notes whose a slot is, until forgetRecord.
func (e *model) keepRecord(addr uint64, owner string) {
	d := e.k.Device
	d.Lock()
	defer d.Unlock()
	if shared(d).records == nil {
		shared(d).records = make(map[recordSlot]string)
	}
	shared(d).records[recordSlot{e.k, addr}] = owner
}

func (e *model) recordOwner(addr uint64) string {
	d := e.k.Device
	d.Lock()
	defer d.Unlock()
	return shared(d).records[recordSlot{e.k, addr}]
}

func (e *model) forgetRecord(addr uint64) {
	d := e.k.Device
	d.Lock()
	defer d.Unlock()
	delete(shared(d).records, recordSlot{e.k, addr})
}

// load reads a word of a record. The page was pinned, so it is there as long as the
// process keeps to the rules.
func (e *model) load(what fmt.Stringer, object uint32, addr uint64) (v uint64, ok bool) {
	v, err := e.k.User.Load64(addr)
	if err != nil {
		e.gone(err, "%s: the doorbell record at %#x is gone", what, addr)
		return 0, false
	}
	return e.k.CrossRecord(object, 0, 0, v), true
}

// gone notes that memory could not be reached, as the fault of a process that still runs.
func (e *model) gone(err error, format string, args ...any) {
	if !errors.Is(err, syscall.ESRCH) {
		e.note(format, args...)
	}
}
