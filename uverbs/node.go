package uverbs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// node is an object's place in the ownership graph of one device. Its fields
// are guarded by the graph's lock.
type node struct {
	graph   *graph
	device  string
	kind    string // "PD"
	number  uint32 // the kernel's, 3
	named   bool   // number is known
	parents []*node
	users   int // how often it is a parent
	state   nodeState

	// life is held for reading by calls that name the object to the kernel, and
	// for writing by those that change what it is, above all by Close, after which
	// the number may be another object's.
	life sync.RWMutex
}

// graph is all objects of a device but the device itself. An object knows its
// parents and only counts its users: their names are found for an error message only.
type graph struct {
	sync.Mutex
	nodes map[*node]struct{}
}

type nodeState int

const (
	nodeOpen nodeState = iota
	nodeClosing
	nodeClosed
)

// root makes n the top of a new graph.
func (n *node) root(device string) {
	n.graph, n.device, n.kind = &graph{nodes: make(map[*node]struct{})}, device, "device"
}

// attach makes n a user of its parents, so that none of them can be closed
// before n. It fails when one of them is closed already. Nil parents are
// skipped.
func (n *node) attach(kind string, parents ...*node) error {
	parents = slices.DeleteFunc(parents, func(p *node) bool { return p == nil })
	n.graph, n.device, n.kind = parents[0].graph, parents[0].device, kind
	n.graph.Lock()
	defer n.graph.Unlock()
	for _, p := range parents {
		if p.graph != n.graph || p.state != nodeOpen {
			return n.fail("create", ErrClosed, p.name()+" is closed or belongs to another device")
		}
	}
	for _, p := range parents {
		p.users++
	}
	n.parents = parents
	n.graph.nodes[n] = struct{}{}
	return nil
}

func (n *node) detach() {
	n.graph.Lock()
	defer n.graph.Unlock()
	n.detachLocked()
}

func (n *node) detachLocked() {
	for _, p := range n.parents {
		p.users--
	}
	delete(n.graph.nodes, n)
	n.parents = nil
	n.state = nodeClosed
}

// setNumber gives n the number it got from the kernel.
func (n *node) setNumber(number uint32) {
	n.graph.Lock()
	defer n.graph.Unlock()
	n.number, n.named = number, true
}

// name is for error messages: "PD 3".
func (n *node) name() string {
	if !n.named {
		return n.kind
	}
	return fmt.Sprintf("%s %d", n.kind, n.number)
}

// close takes n out of the graph if nothing uses it and destroy agrees. When
// destroy fails the object stays alive, as it does in the kernel; when it
// succeeds the object is gone, whatever release then has to say.
func (n *node) close(destroy, release func() error) error {
	n.life.Lock()
	defer n.life.Unlock()
	if err := n.beginClose(); err != nil {
		return err
	}
	if err := destroy(); err != nil {
		n.graph.Lock()
		defer n.graph.Unlock()
		n.state = nodeOpen
		return n.fail("close", err, destroyHint(err))
	}
	err := release()
	n.detach()
	if err != nil {
		return n.fail("close", err, "")
	}
	return nil
}

func (n *node) beginClose() error {
	n.graph.Lock()
	defer n.graph.Unlock()
	switch {
	case n.state != nodeOpen:
		return n.fail("close", ErrClosed, "")
	case n.users > 0:
		return n.fail("close", ErrInUse, "close "+n.holders()+" first")
	}
	n.state = nodeClosing
	return nil
}

// using carries out an operation while n can't be closed, or refuses it because
// n is closed.
func (n *node) using(op string, f func() error) error {
	n.life.RLock()
	defer n.life.RUnlock()
	return n.whileOpen(op, f)
}

// alone is using with every other call held off, for what changes the object.
func (n *node) alone(op string, f func() error) error {
	n.life.Lock()
	defer n.life.Unlock()
	return n.whileOpen(op, f)
}

func (n *node) whileOpen(op string, f func() error) error {
	n.graph.Lock()
	closed := n.state == nodeClosed
	n.graph.Unlock()
	if closed {
		return n.fail(op, ErrClosed, "")
	}
	return f()
}

// nothing is what an object has to release, or to destroy, that has only the
// other.
func nothing() error { return nil }

func (n *node) holders() string {
	var names []string
	for u := range n.graph.nodes {
		if slices.Contains(u.parents, n) {
			names = append(names, u.name())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (n *node) fail(op string, err error, hint string) error {
	return &Error{Op: op, Object: n.name(), Device: n.device, Err: err, Hint: hint}
}
