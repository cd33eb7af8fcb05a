package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/goverbs/goverbs/rdmatest"
	"github.com/goverbs/goverbs/verbs"
)

// lab is the environment of a program: software networks of two hosts each, or devices of
// the kernel. It closes everything that was created in it, in reverse order.
type lab struct {
	out     io.Writer
	places  map[rdmatest.Kind]place
	fabrics map[rdmatest.Kind]*rdmatest.Fabric
	closers []func() error
	ended   []func() // of the fabrics
	errs    []error
}

// place is the device and address of one end of a connection. Soft RoCE may have no addr.
type place struct{ device, addr string }

func newLab(out io.Writer, places map[rdmatest.Kind]place) *lab {
	return &lab{out: out, places: places, fabrics: make(map[rdmatest.Kind]*rdmatest.Fabric)}
}

// say prints a line of the program's output.
func (l *lab) say(format string, args ...any) { fmt.Fprintf(l.out, format+"\n", args...) }

// host returns the place of the first (0) or second (1) end, on a device of the given kind.
func (l *lab) host(kind rdmatest.Kind, i int) place {
	if p, ok := l.places[kind]; ok {
		return p
	}
	h := l.network(kind).Host(i)
	return place{h.Device(0).Name(), h.Addr()}
}

// network returns the network of the given kind. It has two hosts.
func (l *lab) network(kind rdmatest.Kind) *rdmatest.Fabric {
	if l.fabrics[kind] == nil {
		l.fabrics[kind] = rdmatest.NewWith(l, &rdmatest.Options{Kind: kind})
	}
	return l.fabrics[kind]
}

// Helper, Cleanup and Errorf are the methods of a test that a fabric calls.
func (l *lab) Helper()          {}
func (l *lab) Cleanup(f func()) { l.ended = append(l.ended, f) }
func (l *lab) Errorf(format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf(format, args...))
}

// closeAll closes everything that was created since the last closeAll.
func (l *lab) closeAll() {
	for i := len(l.closers) - 1; i >= 0; i-- {
		if err := l.closers[i](); err != nil && !errors.Is(err, verbs.ErrClosed) {
			l.errs = append(l.errs, err)
		}
	}
	l.closers = nil
}

// end closes everything. It recovers from panics of must and check, and sets *err to their errors.
func (l *lab) end(err *error) {
	if r := recover(); r != nil {
		failed, ok := r.(failure)
		if !ok {
			panic(r)
		}
		l.errs = append(l.errs, failed.error)
	}
	l.closeAll()
	for _, f := range l.ended {
		f()
	}
	*err = errors.Join(append([]error{*err}, l.errs...)...)
}

// failure is an unexpected error. It ends the program.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// closing registers an object to be closed with the lab.
func closing[T io.Closer](l *lab, c T) T {
	l.closers = append(l.closers, c.Close)
	return c
}

// succeed checks that a work request has succeeded.
func succeed(s verbs.Status) {
	if s != verbs.StatusSuccess {
		panic(failure{s})
	}
}
