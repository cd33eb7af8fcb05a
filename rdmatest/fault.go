package rdmatest

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/verbs"
)

// Fault is something that will happen once.
type Fault struct {
	of       *faults
	at       string // the device
	what     string
	call     Call
	cmd      CMCommand
	skip     int
	err      error
	held     chan struct{} // of a command that has no answer
	status   uint32
	cut      int
	struck   atomic.Bool
	optional bool
}

// Optional says that the fault may never happen, and returns it. Without it a fault that was
// neither struck nor stopped when the test ends is an error of the test.
func (f *Fault) Optional() *Fault {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.optional = true
	return f
}

// Struck reports whether it has happened.
func (f *Fault) Struck() bool { return f.struck.Load() }

// Stop takes the fault back, and reports whether it had not happened.
func (f *Fault) Stop() bool {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	for _, list := range f.of.lists() {
		*list = slices.DeleteFunc(*list, func(other *Fault) bool { return other == f })
	}
	return !f.Struck()
}

// faults are those that a device is to have, in the order of being asked for.
type faults struct {
	pending            atomic.Bool // there may be some
	mu                 sync.Mutex
	calls, sends, recv []*Fault
	commands           []*Fault
}

func (fs *faults) lists() []*[]*Fault {
	return []*[]*Fault{&fs.calls, &fs.sends, &fs.recv, &fs.commands}
}

// idle returns the faults that have not happened and are not optional.
func (fs *faults) idle() (idle []*Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, list := range fs.lists() {
		for _, f := range *list {
			if !f.optional {
				idle = append(idle, f)
			}
		}
	}
	return idle
}

func (fs *faults) add(list *[]*Fault, f *Fault) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.of = fs
	fs.pending.Store(true)
	*list = append(*list, f)
	return f
}

// strike finds the fault whose turn it is.
func (fs *faults) strike(list *[]*Fault, concerns func(*Fault) bool) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, f := range *list {
		if !concerns(f) {
			continue
		}
		if f.skip--; f.skip < 0 {
			*list = append((*list)[:i:i], (*list)[i+1:]...)
			f.struck.Store(true)
			return f
		}
	}
	return nil
}

func anyFault(*Fault) bool { return true }

// Fail has a call fail, in any opening of the device: the next one, or a later one after
// some were let through. Faults of one call queue up. The error is what the kernel answers, a [syscall.Errno].
func (d *Device) Fail(call Call, skip int, err error) *Fault {
	return d.faults.add(&d.faults.calls, &Fault{at: d.name, what: "Fail of " + cmp.Or(string(call), "any call"), call: call, skip: skip, err: err})
}

func (fs *faults) refuse(call string) error {
	if !fs.pending.Load() {
		return nil
	}
	f := fs.strike(&fs.calls, func(f *Fault) bool { return f.call == AnyCall || string(f.call) == call })
	if f == nil {
		return nil
	}
	return f.err
}

// FailSend has a send complete with a status and not leave: the next one that a queue pair
// of the device starts on, or a later one after some were let through. The queue pair is
// then in the error state.
func (d *Device) FailSend(skip int, status verbs.Status) *Fault {
	return d.faults.add(&d.faults.sends, &Fault{at: d.name, what: "FailSend", skip: skip, status: uint32(status), cut: -1})
}

// CutSend has a connection end in the middle of a message: the peer's memory gets as many
// bytes, and then both queue pairs are in the error state.
func (d *Device) CutSend(skip, bytes int) *Fault {
	return d.faults.add(&d.faults.sends, &Fault{at: d.name, what: "CutSend", skip: skip, cut: bytes})
}

func (fs *faults) strikeSend(k *packet) {
	if !fs.pending.Load() {
		return
	}
	if f := fs.strike(&fs.sends, anyFault); f != nil {
		k.status, k.cut = f.status, f.cut
	}
}

// FailRecv has a receive complete with a status, when its message is there: the next one,
// or a later one after some were let through. The queue pair is then in the error state.
func (d *Device) FailRecv(skip int, status verbs.Status) *Fault {
	return d.faults.add(&d.faults.recv, &Fault{at: d.name, what: "FailRecv", skip: skip, status: uint32(status)})
}

func (fs *faults) strikeRecv() (status uint32, ok bool) {
	if !fs.pending.Load() {
		return 0, false
	}
	if f := fs.strike(&fs.recv, anyFault); f != nil {
		return f.status, true
	}
	return 0, false
}
