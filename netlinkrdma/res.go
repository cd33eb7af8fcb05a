package netlinkrdma

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// DumpOptions narrow or widen a dump of objects. Nil means the zero value. The
// kernel picks by port alone: other filters, such as by process, are a condition in
// the loop; an object whose number is known is had with GetQP and its like.
type DumpOptions struct {
	// Port leaves only the QPs, CM ids or counters of this port; 0 is all of them, those
	// of no port yet included. Objects of other kinds belong to no port, and
	// the kernel takes no notice of it.
	Port uint32
	// DriverDetails asks for what the driver keeps to itself otherwise: its
	// own attributes, on drivers that ask for it, and objects of its own.
	DriverDetails bool
}

// attrs is the device and what the options say about it.
func (o *DumpOptions) attrs(device uint32) []Attr {
	attrs := []Attr{byIndex(device)}
	if o == nil {
		return attrs
	}
	if o.Port != 0 {
		attrs = append(attrs, Attr{abi.RDMA_NLDEV_ATTR_PORT_INDEX, uint32Value(o.Port)})
	}
	if o.DriverDetails {
		attrs = append(attrs, Attr{abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS, []byte{1}})
	}
	return attrs
}

// tracked is a kind of objects that the kernel keeps track of.
type tracked[T any] struct {
	name         string // in errors
	op           uint16
	table, entry uint16 // the two attributes around an object in a dump
	id           uint16 // the attribute that names one
	stat         uint16 // of statistics: the attribute that names what is counted
	parse        func(a *attributes, v *T)
	// number is what the kernel keeps it under; nil where it does not say, and
	// then a dump can't be asked for again once something was given out.
	number func(v *T) uint32
}

// request is what asks for objects of this kind.
func (k *tracked[T]) request(device uint32, o *DumpOptions, dump bool) Request {
	attrs := o.attrs(device)
	if k.stat != 0 {
		attrs = append(attrs, counted(k.stat))
	}
	return Request{Op: k.op, Dump: dump, Attrs: attrs}
}

// dump asks for all objects and gives them out as they come. When the kernel
// says that a dump was disturbed, it is asked for again, and what was given out
// by then is left out: whatever lived all the time is given out once.
func (k *tracked[T]) dump(c *Client, device uint32, o *DumpOptions) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		what := fmt.Sprintf("list the %ss of RDMA device %d", k.name, device)
		d := dumping[T]{tracked: k, yield: yield}
		err := c.stream(what, k.request(device, o, true), d.reply, d.again)
		if d.err != nil {
			err = fmt.Errorf("netlinkrdma: %s: %w", what, d.err)
		}
		if err != nil && !d.stopped {
			yield(*new(T), err)
		}
	}
}

// dumping is a dump under way. Reader and value are used for every object, so
// that none costs an allocation. An empty entry is one the kernel left out.
type dumping[T any] struct {
	*tracked[T]
	yield   func(T, error) bool
	entry   attributes
	value   T
	given   []uint32
	before  []uint32 // given out before the dump was asked for again, sorted
	begun   bool     // something was given out
	stopped bool     // the caller wants no more
	err     error
}

// reply gives out the objects of one reply, and tells whether to go on.
func (d *dumping[T]) reply(reply []byte) bool {
	a := attributes{rest: reply}
	for !d.stopped && a.next() {
		if a.typ == d.table {
			table := a.inside()
			d.objects(&table)
			a.adopt(&table)
		}
	}
	d.err = a.err
	return !d.stopped && a.err == nil
}

func (d *dumping[T]) objects(table *attributes) {
	for !d.stopped && table.next() {
		if table.typ == d.tracked.entry && len(table.value) > 0 {
			d.object(table)
		}
	}
}

// object gives out one, unless an earlier attempt did.
func (d *dumping[T]) object(table *attributes) {
	d.entry, d.value = table.inside(), *new(T)
	d.parse(&d.entry, &d.value)
	if !table.adopt(&d.entry) {
		return
	}
	if d.number != nil {
		number := d.number(&d.value)
		if _, old := slices.BinarySearch(d.before, number); old {
			return
		}
		d.given = append(d.given, number)
	}
	d.begun = true
	d.stopped = !d.yield(d.value, nil)
}

// again makes ready for the same dump once more, if that can be.
func (d *dumping[T]) again() bool {
	d.before = slices.Clone(d.given)
	slices.Sort(d.before)
	return d.number != nil || !d.begun
}

// get asks for the one object with this number. Port is 0 where the kind has
// none.
func (k *tracked[T]) get(c *Client, device, port, number uint32) (T, error) {
	var v T
	what := fmt.Sprintf("find %s %d of RDMA device %d", k.name, number, device)
	req := k.request(device, &DumpOptions{Port: port, DriverDetails: true}, false)
	req.Attrs = append(req.Attrs, Attr{k.id, uint32Value(number)})
	reply, err := c.callOne(what, req)
	if errors.Is(err, syscall.ENOENT) {
		return v, fmt.Errorf("netlinkrdma: %s: %w: %w", what, ErrNoObject, syscall.ENOENT)
	}
	if err != nil {
		return v, err
	}
	a := attributes{rest: reply}
	if k.parse(&a, &v); a.err != nil {
		return *new(T), fmt.Errorf("netlinkrdma: %s: %w", what, a.err)
	}
	return v, nil
}
