package rdmatest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Left lists what was not closed: objects of the devices and of the connection manager,
// openings of both, and memory that is registered.
func (f *Fabric) Left() (left []string) {
	for _, d := range f.devices {
		for _, k := range d.verbs.Openings() {
			for _, leak := range k.Leaks() {
				left = append(left, fmt.Sprintf("%s: %s", d.name, leak))
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(left, f.manager.left()...)
}

// Objects lists the objects that programs have on the device. It leaves out the pages of
// registers that a provider keeps as long as its device is open.
func (d *Device) Objects() (objects []string) {
	for _, k := range d.verbs.Openings() {
		objects = append(objects, k.Alive()...)
	}
	return slices.DeleteFunc(objects, func(name string) bool { return strings.HasPrefix(name, "UAR ") })
}

// nothingLeft reports what is left at the end of the test, faults that never struck, and what a
// provider did wrong with the queues and registers of a device.
func (f *Fabric) nothingLeft() {
	for _, d := range f.devices {
		for _, v := range d.verbs.Violations() {
			f.t.Errorf("rdmatest: %s: %s", d.name, v)
		}
	}
	f.noneIdle()
	if f.endless {
		return
	}
	if left := f.leaks(); len(left) > 0 {
		f.t.Errorf("rdmatest: left at the end of the test: %q", left)
	}
}

// noneIdle reports the faults that were to happen and did not.
func (f *Fabric) noneIdle() {
	idle := f.faults.idle()
	for _, d := range f.devices {
		idle = append(idle, d.faults.idle()...)
	}
	for _, fault := range idle {
		f.t.Errorf("rdmatest: %s: %s never happened; Fault.Optional allows that", fault.at, fault.what)
	}
}

// leakPatience bounds the wait for goroutines that still run, or for a bubble's time, which costs
// nothing.
const leakPatience = time.Minute

// leaks waits for what is freed in the background: as long as a goroutine of the process can run,
// which may be on its way to free something, and for the LeakTimeout of the fabric more. It counts looks
// and not time, so that a process which stood still has run its timers before.
func (f *Fabric) leaks() (left []string) {
	const pause = time.Millisecond
	quiet := time.Duration(0) // how long no goroutine has run
	busy, bubble := false, false
	for end := time.Now().Add(leakPatience); ; time.Sleep(pause) {
		if left = f.Left(); len(left) == 0 {
			return nil
		}
		if !bubble {
			busy, bubble = goroutines()
		}
		if quiet += pause; busy || bubble {
			quiet = 0
		}
		if time.Now().After(end) || quiet > f.leakTimeout {
			return left
		}
	}
}

// goroutines reports whether any goroutine but this one can run, and whether this one is in a bubble
// of testing/synctest.
func goroutines() (busy, bubble bool) {
	b := make([]byte, 64<<10)
	for {
		n := runtime.Stack(b, true)
		if n < len(b) {
			b = b[:n]
			break
		}
		b = make([]byte, 2*len(b))
	}
	own, others, _ := strings.Cut(string(b), "\n\n")
	for block := range strings.SplitSeq(others, "\n\n") {
		head, _, _ := strings.Cut(block, "\n")
		_, state, _ := strings.Cut(head, "[")
		for _, s := range []string{"runn", "syscall", "sleep", "preempted"} { // running, runnable
			busy = busy || strings.HasPrefix(state, s) && !strings.Contains(block, "os/signal.signal_recv")
		}
	}
	head, _, _ := strings.Cut(own, "\n")
	return busy, strings.Contains(head, "synctest bubble")
}
