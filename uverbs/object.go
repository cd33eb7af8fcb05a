package uverbs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// object is embedded in every object of a device: its place in the device's ownership
// graph. Its fields are guarded by the graph's lock.
type object struct {
	graph   *graph
	device  string
	driver  string // of the device
	kind    string // "PD"
	number  uint32 // the kernel's, 3
	named   bool   // number is known
	parents []*object
	room    [4]*object // of parents, as few objects have more
	users   int        // how often it is a parent
	stage   stage

	// calls is held for reading by calls that name the object to the kernel, and
	// for writing by those that change what it is, above all by Close, after which
	// the number may be another object's.
	calls sync.RWMutex
}

// graph is all objects of a device but the device itself. An object knows its
// parents and only counts its users: their names are wanted for error messages alone.
type graph struct {
	sync.Mutex
	objects map[*object]struct{}
}

// stage says how far an object is on its way to being closed. A QP also has a state, which
// the verbs define, and lives, each of which ends with a move to RESET.
type stage int

const (
	stageOpen stage = iota
	stageClosing
	stageClosed
)

// root makes o the top of a new graph.
func (o *object) root(device, driver string) {
	o.graph, o.device, o.driver, o.kind = &graph{objects: make(map[*object]struct{})}, device, driver, "device"
}

// attach makes o a user of its parents, so that none of them can be closed
// before o. It fails when one of them is closed already. Nil parents are
// skipped.
func (o *object) attach(kind string, parents ...*object) error {
	own := o.room[:0]
	for _, p := range parents {
		if p != nil {
			own = append(own, p)
		}
	}
	o.graph, o.device, o.driver, o.kind = own[0].graph, own[0].device, own[0].driver, kind
	o.graph.Lock()
	defer o.graph.Unlock()
	for _, p := range own {
		if p.graph != o.graph || p.stage != stageOpen {
			return o.fail("create", verbs.ErrClosed, p.name()+" is closed or belongs to another device")
		}
	}
	for _, p := range own {
		p.users++
	}
	o.parents = own
	o.graph.objects[o] = struct{}{}
	return nil
}

func (o *object) detach() {
	o.graph.Lock()
	defer o.graph.Unlock()
	o.detachLocked()
}

func (o *object) detachLocked() {
	for _, p := range o.parents {
		p.users--
	}
	delete(o.graph.objects, o)
	clear(o.parents)
	o.parents = nil
	o.stage = stageClosed
}

// setNumber gives o the number it got from the kernel.
func (o *object) setNumber(number uint32) {
	o.graph.Lock()
	defer o.graph.Unlock()
	o.number, o.named = number, true
}

// name is for error messages: "PD 3".
func (o *object) name() string {
	if !o.named {
		return o.kind
	}
	return fmt.Sprintf("%s %d", o.kind, o.number)
}

// close takes o out of the graph if nothing uses it and destroy agrees. When
// destroy fails the object stays alive, as it does in the kernel; when it
// succeeds the object is gone, whatever release then has to say.
func (o *object) close(destroy, release func() error) error {
	o.calls.Lock()
	defer o.calls.Unlock()
	if err := o.beginClose(); err != nil {
		return err
	}
	if err := destroy(); err != nil {
		o.graph.Lock()
		defer o.graph.Unlock()
		o.stage = stageOpen
		return o.fail("close", err, destroyHint(err))
	}
	err := release()
	o.detach()
	if err != nil {
		return o.fail("close", err, "")
	}
	return nil
}

// closeNil is the error of a Close of a nil pointer.
func closeNil(kind string) error {
	return &Error{Op: "close", Object: kind, Err: os.ErrInvalid, Hint: "the pointer is nil"}
}

func (o *object) beginClose() error {
	o.graph.Lock()
	defer o.graph.Unlock()
	switch {
	case o.stage != stageOpen:
		return o.fail("close", verbs.ErrClosed, "")
	case o.users > 0:
		return o.fail("close", verbs.ErrInUse, "close "+o.holders()+" first")
	}
	o.stage = stageClosing
	return nil
}

// using carries out an operation while o can't be closed, or refuses it because
// o is closed.
func (o *object) using(op string, f func() error) error {
	o.calls.RLock()
	defer o.calls.RUnlock()
	return o.whileOpen(op, f)
}

// alone is using with every other call held off, for what changes the object.
func (o *object) alone(op string, f func() error) error {
	o.calls.Lock()
	defer o.calls.Unlock()
	return o.whileOpen(op, f)
}

func (o *object) whileOpen(op string, f func() error) error {
	o.graph.Lock()
	closed := o.stage == stageClosed
	o.graph.Unlock()
	if closed {
		return o.fail(op, verbs.ErrClosed, "")
	}
	return f()
}

// nothing is what an object has to release, or to destroy, that has only the
// other.
func nothing() error { return nil }

func (o *object) holders() string {
	var names []string
	for u := range o.graph.objects {
		if slices.Contains(u.parents, o) {
			names = append(names, u.name())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// fail makes the error of an operation on o. All errors that something is not supported
// by the device come from here.
func (o *object) fail(op string, err error, hint string) error {
	e := &Error{Op: op, Object: o.name(), Device: o.device, Err: err, Hint: hint}
	if unsupported(err) {
		e.Driver = o.driver
	}
	return e
}

// move makes o a user of to instead of from, if f agrees. Both are kept open
// meanwhile.
func (o *object) move(from, to *object, f func() error) error {
	if from == to {
		return f()
	}
	if err := o.join(to); err != nil {
		return err
	}
	err := f()
	o.graph.Lock()
	defer o.graph.Unlock()
	left := from
	if err != nil {
		left = to
	}
	o.leaveLocked(left)
	return err
}

func (o *object) leaveLocked(parent *object) {
	parent.users--
	i := slices.Index(o.parents, parent)
	o.parents = slices.Delete(o.parents, i, i+1)
}

func (o *object) join(p *object) error {
	o.graph.Lock()
	defer o.graph.Unlock()
	if p.graph != o.graph || p.stage != stageOpen {
		return o.fail("change", verbs.ErrClosed, p.name()+" is closed or belongs to another device")
	}
	o.lean(p)
	return nil
}

// lean makes o a user of one more.
func (o *object) lean(parent *object) {
	o.parents = append(o.parents, parent)
	parent.users++
}
