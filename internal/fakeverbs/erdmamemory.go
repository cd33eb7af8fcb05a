package fakeverbs

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

const erdmaEntry = 32 // bytes of any entry

// pin is what the kernel does with a queue: all of it must be there.
func (e *erdma) pin(what string, addr uint64, length, least uint32) error {
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
func (e *erdma) wantZeros(what string, addr uint64, length uint32) {
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
func (e *erdma) pinRecord(what string, addr uint64) error {
	if addr%16 != 0 {
		e.note("%s: the doorbell record at %#x is not aligned to 16 bytes", what, addr)
	}
	if owner := e.recordOwner(addr); owner != "" {
		e.note("%s: the doorbell record at %#x is that of %s", what, addr, owner)
	}
	page := addr &^ uint64(pageSize-1)
	return e.k.User.Check(page, uint64(pageSize))
}

// recordSlot is a slot of an opening's memory.
type recordSlot struct {
	k    *Kernel
	addr uint64
}

// erdmaDevice is what all openings of an eRDMA device share, beside queue pairs. The
// device's lock guards it.
type erdmaDevice struct {
	records map[recordSlot]string
	lastCQN uint32
	cqs     map[uint32]*ERDMACQ
}

// keepRecord notes whose a slot is, until forgetRecord.
func (e *erdma) keepRecord(addr uint64, owner string) {
	d := e.k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.erdma.records == nil {
		d.erdma.records = make(map[recordSlot]string)
	}
	d.erdma.records[recordSlot{e.k, addr}] = owner
}

func (e *erdma) recordOwner(addr uint64) string {
	d := e.k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.erdma.records[recordSlot{e.k, addr}]
}

func (e *erdma) forgetRecord(addr uint64) {
	d := e.k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.erdma.records, recordSlot{e.k, addr})
}

// load reads a word of a record. The page was pinned, so it is there as long as the
// process keeps to the rules.
func (e *erdma) load(what fmt.Stringer, object uint32, addr uint64) (v uint64, ok bool) {
	v, err := e.k.User.Load64(addr)
	if err != nil {
		e.gone(err, "%s: the doorbell record at %#x is gone", what, addr)
		return 0, false
	}
	return e.k.crossRecord(object, 0, 0, v), true
}

// gone notes that memory could not be reached, as the fault of a process that still runs.
func (e *erdma) gone(err error, format string, args ...any) {
	if !errors.Is(err, syscall.ESRCH) {
		e.note(format, args...)
	}
}
