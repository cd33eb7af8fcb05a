package uverbs

import (
	"errors"

	"github.com/goverbs/goverbs/internal/driver"
	"github.com/goverbs/goverbs/internal/ioctl"
)

// call is one call to the kernel that the provider makes, so that it can act before
// and after the kernel does: a driver.Call.
type call struct {
	*memory
	own   memory // of an object that is being made, which then keeps the call for it
	issue func(driver.UHW, []driver.Attr) error
	again bool // may be made more than once
	done  bool // was made
}

// Do implements driver.Call.
func (c *call) Do(u driver.UHW, extra ...driver.Attr) error {
	if c.done && !c.again {
		return errMadeTwice
	}
	if err := c.issue(u, extra); err != nil {
		return err
	}
	c.done = true
	return nil
}

// creation is the call that makes an object, with memory for that object.
func (d *Device) creation(issue func(driver.UHW, []driver.Attr) error) *call {
	c := &call{own: memory{file: d.file}, issue: issue}
	c.memory = &c.own
	return c
}

// made tells what came of a creation. A provider that gave up, or made no call, is
// undone: the kernel's object goes if it was made, then the memory.
func (c *call) made(err error, destroy func() error) error {
	c.issue = nil // and all that it holds
	switch {
	case err == nil && c.done:
		return nil
	case err == nil:
		err = errNotMade
	case c.done:
		err = errors.Join(err, destroy())
	}
	return errors.Join(err, c.memory.free())
}

// destroy has the provider take part, if it wants to, when the kernel's object goes.
// The kernel's result counts, whatever the provider says of it.
func destroy(provider any, do func() error) error {
	d, ok := provider.(driver.Destroyer)
	if !ok {
		return do()
	}
	var gone bool
	err := d.Destroy(func() error {
		err := do()
		gone = err == nil
		return err
	})
	switch {
	case gone:
		return nil
	case err == nil:
		return errNotMade
	}
	return err
}

// replacement is a call that may exchange the memory of an object.
func (d *Device) replacement(of *memory) *call {
	return &call{memory: &memory{file: d.file, owner: of}, again: true}
}

// replaced ends a replacement: the object takes over the new memory, unless the
// provider gave up. The provider has freed the old memory.
func (c *call) replaced(of *memory, err error) error {
	switch {
	case err != nil:
		return errors.Join(err, c.memory.free())
	case !c.done:
		return errors.Join(errNotMade, c.memory.free())
	}
	of.adopt(c.memory)
	return nil
}

var (
	errMadeTwice = errors.New("the provider made a call twice")
	errNotMade   = errors.New("the provider made no call")
)

// driverPart adds what is the driver's own to a request.
func driverPart(r *ioctl.Request, u driver.UHW, extra []driver.Attr) {
	r.Driver(u.In, u.Out)
	for i := range extra {
		switch a := &extra[i]; {
		case a.New:
			r.NewObject(a.ID)
		case a.In != nil:
			r.InBytes(a.ID, a.In)
		case a.Out != nil:
			r.OutBytes(a.ID, a.Out)
		default:
			r.Handle(a.ID, a.Handle)
		}
	}
}

// doWith issues a request with what is the driver's own.
func (d *Device) doWith(r *ioctl.Request, u driver.UHW, extra []driver.Attr) error {
	driverPart(r, u, extra)
	if err := r.Do(d.file); err != nil {
		return err
	}
	for i := range extra {
		if a := &extra[i]; a.New {
			a.Handle = r.Created(a.ID)
		}
	}
	return nil
}
