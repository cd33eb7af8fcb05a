package uverbs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/goverbs/goverbs/verbs"
)

// object is embedded in every object of a device. It is a node of the device's ownership
// graph. The graph's lock guards its fields.
type object struct {
	graph   *graph
	device  string
	driver  string // the device's
	kind    string // "PD"
	number  uint32 // the kernel's number, 3
	named   bool   // number is set
	parents []*object
	room    [4]*object // backing array of parents; few objects have more
	users   int        // number of objects that have it as a parent
	stage   stage

	// calls is held for reading by calls that pass the object to the kernel, and for
	// writing by calls that replace or close it. After Close, the kernel may give the
	// number to another object.
	calls sync.RWMutex
}

// graph holds all objects of a device except the device itself. An object has a list of its
// parents, but only a count of its users: their names are needed for error messages only.
type graph struct {
	sync.Mutex
	objects map[*object]struct{}
}

// stage says whether an object is open, being closed, or closed. A QP also has a state, which
// the verbs define, and a generation, which grows at each move to RESET.
type stage int

const (
	stageOpen stage = iota
	stageClosing
	stageClosed
)

// root makes o the root of a new graph.
func (o *object) root(device, driver string) {
	o.graph, o.device, o.driver, o.kind = &graph{objects: make(map[*object]struct{})}, device, driver, "device"
}

// attach makes o a user of its parents, so that none of them can be closed before o. It
// fails if one of them is closed already. Nil parents are skipped.
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

// setNumber sets the number that the kernel gave o.
func (o *object) setNumber(number uint32) {
	o.graph.Lock()
	defer o.graph.Unlock()
	o.number, o.named = number, true
}

// name returns o's name for error messages, such as "PD 3".
func (o *object) name() string {
	if !o.named {
		return o.kind
	}
	return fmt.Sprintf("%s %d", o.kind, o.number)
}

// close removes o from the graph if it has no users and destroy succeeds. If destroy fails,
// the object stays open, as it does in the kernel. If destroy succeeds, the object is closed,
// even if release fails.
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

// closeNil returns the error of Close on a nil pointer.
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

// using calls f and keeps o open meanwhile. It returns an error if o is closed.
func (o *object) using(op string, f func() error) error {
	o.calls.RLock()
	defer o.calls.RUnlock()
	return o.whileOpen(op, f)
}

// alone is like using, but excludes all other calls on o. It is for calls that replace the object.
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

// noop is the destroy or release function of objects that need none.
func noop() error { return nil }

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

// fail returns the error of an operation on o. If the cause is a missing feature, the error
// names the driver.
func (o *object) fail(op string, err error, hint string) error {
	e := &Error{Op: op, Object: o.name(), Device: o.device, Err: err, Hint: hint}
	if unsupported(err) {
		e.Driver = o.driver
	}
	return e
}

// move calls f and, if it succeeds, makes o a user of to instead of from. Both are kept open
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
	o.addParentLocked(p)
	return nil
}

// addParentLocked makes o a user of parent. The caller holds the graph's lock.
func (o *object) addParentLocked(parent *object) {
	o.parents = append(o.parents, parent)
	parent.users++
}
