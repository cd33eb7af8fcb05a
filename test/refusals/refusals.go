// Package refusals lists the requests that devices refuse: calls with their errnos, and work
// requests with their statuses. One table serves twice. A unit test holds the devices of
// package rdmatest to it, and a kernel test the devices of Linux.
package refusals

import (
	"errors"
	"testing"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// On says which kinds of devices a row is about.
type On int

// Kinds of devices.
const (
	RXE On = 1 << iota
	SIW
	Both = RXE | SIW
)

// Refusal is something that a device refuses.
type Refusal struct {
	Name string
	On   On
	Do   func(e *Env) error
	Want error
}

// Env is an open device with the objects that calls need.
type Env struct {
	t    testing.TB
	on   On
	Dev  *uverbs.Device
	PD   *uverbs.PD
	CQ   *uverbs.CQ
	MR   *uverbs.MR
	free []interface{ Close() error }
}

// Run has a device refuse all that it should.
func Run(t *testing.T, device string, on On) {
	for _, r := range Refusals() {
		if r.On&on == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			e := open(t, device, on)
			defer e.close()
			if err := r.Do(e); !errors.Is(err, r.Want) {
				t.Errorf("%v, want %v", err, r.Want)
			}
		})
	}
}

func open(t testing.TB, device string, on On) *Env {
	t.Helper()
	e := &Env{t: t, on: on}
	e.Dev = must(uverbs.Open(device))(t)
	e.free = append(e.free, e.Dev)
	e.PD = keep(e, must(e.Dev.AllocPD()))
	e.CQ = keep(e, must(e.Dev.CreateCQ(16, nil)))
	e.MR = keep(e, must(e.PD.AllocMR(4096, verbs.AccessLocalWrite, nil)))
	return e
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// keep closes something with the environment.
func keep[T interface{ Close() error }](e *Env, made func(testing.TB) T) T {
	e.t.Helper()
	v := made(e.t)
	e.free = append(e.free, v)
	return v
}

// made is for what should have been refused.
func made[T interface{ Close() error }](e *Env) func(v T, err error) error {
	return func(v T, err error) error {
		if err == nil {
			e.free = append(e.free, v)
		}
		return err
	}
}

func (e *Env) close() {
	for i := range e.free {
		if err := e.free[len(e.free)-1-i].Close(); err != nil {
			e.t.Error(err)
		}
	}
}

// qp makes a queue pair in RESET.
func (e *Env) qp(typ verbs.QPType) *uverbs.QP {
	e.t.Helper()
	return keep(e, must(e.PD.CreateQP(e.options(typ))))
}

func (e *Env) options(typ verbs.QPType) *uverbs.QPOptions {
	return &uverbs.QPOptions{Type: typ, SendCQ: e.CQ, RecvCQ: e.CQ, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}
}

// create makes a queue pair with something changed.
func (e *Env) create(change func(*uverbs.QPOptions)) error {
	o := e.options(verbs.QPTypeRC)
	change(o)
	return made[*uverbs.QP](e)(e.PD.CreateQP(o))
}
