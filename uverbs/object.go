package uverbs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
	serial  uint64 // orders the objects of the graph by age

	// calls is held for reading by calls that pass the object to the kernel, and for
	// writing by calls that replace or close it. After Close, the kernel may give the
	// number to another object.
	calls sync.RWMutex
}

// graph holds all objects of a device except the device itself. An object has a list of its
// parents, but only a count of its users: their names are needed for error messages only.
type graph struct {
	sync.Mutex
	objects map[*object]io.Closer // what closes them; nil while they are being created
	serial  uint64                // of the newest object
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
	o.graph, o.device, o.driver, o.kind = &graph{objects: make(map[*object]io.Closer)}, device, driver, "device"
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
	if own[0].isZero() {
		return own[0].fail("use", verbs.ErrClosed, "")
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
	o.graph.objects[o] = nil
	o.graph.serial++
	o.serial = o.graph.serial
	return nil
}

// isZero reports whether o is part of a zero value, which no function of this package has created.
func (o *object) isZero() bool { return o.graph == nil }

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

// created sets the number that the kernel gave o, once self, which o is part of, may be closed.
func (o *object) created(self io.Closer, number uint32) {
	o.graph.Lock()
	defer o.graph.Unlock()
	o.graph.objects[o], o.number, o.named = self, number, true
}

// createdUnnamed is created for an object that the kernel does not know.
func (o *object) createdUnnamed(self io.Closer) {
	o.graph.Lock()
	defer o.graph.Unlock()
	o.graph.objects[o] = self
}

// name returns o's name for error messages, such as "PD 3".
func (o *object) name() string {
	switch {
	case o.isZero():
		return "a zero value"
	case !o.named:
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
	return &verbs.Error{Op: "close", Object: kind, Err: os.ErrInvalid, Hint: "the pointer is nil"}
}

func (o *object) beginClose() error {
	if o.isZero() {
		return o.fail("close", verbs.ErrClosed, "")
	}
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
	if o.isZero() {
		return o.fail(op, verbs.ErrClosed, "")
	}
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

// usersLocked returns the objects that have o as a parent.
func (o *object) usersLocked() (users []*object) {
	if o.users == 0 {
		return nil
	}
	for u := range o.graph.objects {
		if slices.Contains(u.parents, o) {
			users = append(users, u)
		}
	}
	return users
}

func (o *object) holders() string {
	var names []string
	for _, u := range o.usersLocked() {
		names = append(names, u.name())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// closingOrder is greater for objects that closeAll closes earlier: QPs, then the newest.
func (o *object) closingOrder() uint64 {
	if o.kind == "QP" {
		return 1<<63 | o.serial
	}
	return o.serial
}

// closeAll closes all objects that use o, directly or through others, and then o: QPs first, which ends their
// work, then the newest. It stops at an object that can't be closed.
func (o *object) closeAll() error {
	o.graph.Lock()
	users := o.usersLocked()
	o.graph.Unlock()
	slices.SortFunc(users, func(a, b *object) int { return cmp.Compare(b.closingOrder(), a.closingOrder()) })
	for _, u := range users {
		if err := u.closeAll(); err != nil && !errors.Is(err, verbs.ErrClosed) { // it may have used an earlier one, too
			return err
		}
	}
	o.graph.Lock()
	self, ok := o.graph.objects[o]
	o.graph.Unlock()
	switch {
	case !ok:
		return o.fail("close", verbs.ErrClosed, "")
	case self == nil:
		return o.fail("close", verbs.ErrInUse, "another goroutine is creating it")
	}
	return self.Close()
}

// fail returns the error of an operation on o. If the cause is a missing feature, the error
// names the driver. If o is a zero value, that is the cause.
func (o *object) fail(op string, err error, hint string) error {
	if o.isZero() {
		err, hint = os.ErrInvalid, "only functions of this package create objects"
	}
	e := &verbs.Error{Op: op, Object: o.name(), Device: o.device, Err: err, Hint: hint}
	if errors.Is(e, verbs.ErrNotSupported) {
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

// Format implements [fmt.Formatter] for all objects. It prints name, device and state, never memory, so an
// object may be printed at any time.
func (o *object) Format(f fmt.State, _ rune) {
	if o.isZero() {
		fmt.Fprint(f, o.name())
		return
	}
	o.graph.Lock()
	name, stage := o.name(), o.stage
	o.graph.Unlock()
	fmt.Fprintf(f, "%s on %s, %s", name, o.device, [...]string{"open", "closing", "closed"}[stage])
}
