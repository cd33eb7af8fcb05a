package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/goverbs/goverbs/netlinkrdma"
)

// optional prints a number that the kernel may leave out.
func (s *resourceShow) optional(key string, v netlinkrdma.Opt[uint32]) {
	if v.Known {
		s.p.uint(key, uint64(v.Value))
	}
}

// key prints a key of memory.
func (s *resourceShow) key(name string, v netlinkrdma.Opt[uint32]) {
	if v.Known {
		s.p.hex(name, uint64(v.Value))
	}
}

// pass tells whether a number that the kernel may leave out passes its filter.
func (s *resourceShow) pass(key string, v netlinkrdma.Opt[uint32]) bool {
	return s.f.number(key, uint64(v.Value), v.Known)
}

func (s *resourceShow) passOwner(o netlinkrdma.Owner) bool {
	return s.f.number("pid", uint64(o.TID), o.TID != 0) || s.passProcess(o)
}

// passProcess tells whether the process passes of which the owner is a thread.
func (s *resourceShow) passProcess(o netlinkrdma.Owner) bool {
	pid, ok := s.pids[o.TID]
	if !ok {
		pid, _ = o.PIDIn(s.t.Proc) // 0 when it is not known
		s.pids[o.TID] = pid
	}
	return s.f.number("pid", uint64(pid), pid != 0)
}

// owner prints the thread, which iproute2 calls pid, with the name it has now, or the
// kernel's module.
func (s *resourceShow) owner(o netlinkrdma.Owner) {
	comm := o.Kernel
	if o.TID != 0 {
		s.p.uint("pid", uint64(o.TID))
		comm = s.comm(o.TID)
	} else if comm != "" && !s.p.json {
		comm = "[" + comm + "]"
	}
	if comm != "" {
		s.p.word("comm", comm)
	}
}

// comm is the name of a thread, empty when it is gone or hidden. It is asked
// for once: most objects have few owners.
func (s *resourceShow) comm(tid uint32) string {
	name, ok := s.comms[tid]
	if !ok {
		text, err := fs.ReadFile(s.t.Proc, fmt.Sprintf("%d/comm", tid))
		if err == nil {
			name, _, _ = strings.Cut(string(text), "\n")
		}
		s.comms[tid] = name
	}
	return name
}

const driverLine = 80 // iproute2 breaks the driver's part after so much

// driver prints the driver's own attributes on lines of their own.
func (s *resourceShow) driver(attrs []netlinkrdma.DriverAttr) {
	if s.t.Details < 2 || len(attrs) == 0 {
		return
	}
	s.p.newline()
	length := 0
	for _, d := range attrs {
		if length > driverLine {
			s.p.newline()
			length = 0
		}
		before := len(s.p.b)
		s.driverAttr("drv_"+d.Name, d)
		if d.Kind != netlinkrdma.DriverString { // iproute2 does not count those
			length += len(s.p.b) - before
		}
	}
}

func (s *resourceShow) driverAttr(key string, d netlinkrdma.DriverAttr) {
	switch {
	case d.Kind == netlinkrdma.DriverString || !s.p.json:
		s.p.word(key, d.String())
	case d.Kind == netlinkrdma.DriverS32 || d.Kind == netlinkrdma.DriverS64:
		s.p.int(key, int64(d.Number))
	default:
		s.p.uint(key, d.Number)
	}
}
