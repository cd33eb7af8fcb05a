package netlinkrdma

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/goverbs/goverbs/internal/abi"
)

// Resource is the number of objects of one kind on a device, including those of the
// kernel's own users.
type Resource struct {
	Kind  string // pd, cq, qp, cm_id, mr, ctx, srq
	Count uint64
	Max   uint64 // the most that the device can have; 0 if the kernel does not report it, as up to Linux 7.2
}

// Resources counts the objects on the device with this index, in the kernel's order. With
// o.DriverDetails it counts the driver's own objects too.
//
// C: rdma resource show
func (c *Client) Resources(device uint32, o *ListOptions) ([]Resource, error) {
	op := operation{"count resources of", numbered(device)}
	reply, err := c.callOne(op, Request{
		Op: abi.RDMA_NLDEV_CMD_RES_GET, Attrs: o.attrs(device),
	})
	if err != nil {
		return nil, err
	}
	resources, err := parseResources(reply)
	if err != nil {
		return nil, op.failed(err)
	}
	return resources, nil
}

func parseResources(reply []byte) ([]Resource, error) {
	var all []Resource
	a := attributes{rest: reply}
	for a.next() {
		if a.typ == abi.RDMA_NLDEV_ATTR_RES_SUMMARY {
			a.nested(func(summary *attributes) { all = parseSummary(summary) })
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	return all, nil
}

func parseSummary(a *attributes) []Resource {
	var all []Resource
	for a.next() {
		if a.typ != abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY {
			continue
		}
		var r Resource
		a.nested(func(entry *attributes) { r = parseSummaryEntry(entry) })
		all = append(all, r)
	}
	return all
}

func parseSummaryEntry(a *attributes) Resource {
	var r Resource
	for a.next() {
		switch a.typ {
		case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME:
			r.Kind = a.string()
		case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR:
			r.Count = a.uint64()
		case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX:
			r.Max = a.uint64()
		}
	}
	a.require(r.Kind != "", abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
	return r
}

// ListOptions select the objects of a dump. Nil means the zero value. The kernel filters by
// port only. Use a condition in the loop for other filters, such as by process, and QP
// and its like for an object whose number is known.
type ListOptions struct {
	// Port selects the QPs, CM ids or counters of one port; 0 selects all, including those
	// that have no port yet. The kernel ignores it for other kinds of objects, which belong
	// to no port.
	Port int
	// DriverDetails adds the driver's own objects, and attributes that some drivers send
	// only then.
	DriverDetails bool
}

// attrs returns the attributes that select the device and the objects.
func (o *ListOptions) attrs(device uint32) []Attr {
	attrs := []Attr{byIndex(device)}
	if o == nil {
		return attrs
	}
	if o.Port != 0 {
		attrs = append(attrs, portAttr(o.Port))
	}
	if o.DriverDetails {
		attrs = append(attrs, Attr{abi.RDMA_NLDEV_ATTR_DRIVER_DETAILS, []byte{1}})
	}
	return attrs
}

// tracked is a kind of object that the kernel tracks.
type tracked[T any] struct {
	name         string // in errors
	op           uint16
	table, entry uint16 // the two attributes that enclose an object in a dump
	id           uint16 // the attribute that selects one object
	stat         uint16 // for counters: the attribute of the kind of object that is counted
	parse        func(a *attributes, v *T)
	// number returns the number by which the kernel stores an object. It is nil if the
	// kernel does not send that number: then a dump cannot be repeated once it has
	// yielded an object.
	number func(v *T) uint32
}

// request returns a request for objects of this kind.
func (k *tracked[T]) request(device uint32, o *ListOptions, dump bool) Request {
	attrs := o.attrs(device)
	if k.stat != 0 {
		attrs = append(attrs, counted(k.stat))
	}
	return Request{Op: k.op, Dump: dump, Attrs: attrs}
}

// dump yields all objects as they arrive. If the kernel reports that its list changed, dump
// repeats the request and skips the objects that it has yielded. So it yields every object
// that exists during the whole dump exactly once.
func (k *tracked[T]) dump(c *Client, device uint32, o *ListOptions) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		op := operation{fmt.Sprintf("list the %ss of", k.name), numbered(device)}
		d := dumping[T]{tracked: k, yield: yield}
		err := c.stream(op, k.request(device, o, true), d.reply, d.again)
		if d.err != nil {
			err = op.failed(d.err)
		}
		if err != nil && !d.stopped {
			yield(*new(T), err)
		}
	}
}

// dumping is a dump in progress. Its entry and value are reused for every object, to save
// allocations. The kernel sends an empty entry for an object that it leaves out.
type dumping[T any] struct {
	*tracked[T]
	yield   func(T, error) bool
	entry   attributes
	value   T
	yielded []uint32
	before  []uint32 // yielded before the dump was repeated, sorted
	begun   bool     // an object has been yielded
	stopped bool     // the caller left the loop
	err     error
}

// reply yields the objects of one reply, and reports whether the dump goes on.
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

// object yields one object unless an earlier attempt has.
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
		d.yielded = append(d.yielded, number)
	}
	d.begun = true
	d.stopped = !d.yield(d.value, nil)
}

// again prepares to repeat the dump, and reports whether it can be repeated.
func (d *dumping[T]) again() bool {
	d.before = slices.Clone(d.yielded)
	slices.Sort(d.before)
	return d.number != nil || !d.begun
}

// get returns the object with this number. port is 0 for objects that have none.
func (k *tracked[T]) get(c *Client, device uint32, port int, number uint32) (T, error) {
	var v T
	op := operation{"find", fmt.Sprintf("%s %d of %s", k.name, number, numbered(device))}
	req := k.request(device, &ListOptions{Port: port, DriverDetails: true}, false)
	req.Attrs = append(req.Attrs, Attr{k.id, uint32Value(number)})
	reply, err := c.callOne(op, req)
	if errors.Is(err, syscall.ENOENT) {
		return v, op.failed(fmt.Errorf("%w: %w", ErrNoObject, syscall.ENOENT))
	}
	if err != nil {
		return v, err
	}
	a := attributes{rest: reply}
	if k.parse(&a, &v); a.err != nil {
		return *new(T), op.failed(a.err)
	}
	return v, nil
}

// Opt is a value that the kernel may leave out.
type Opt[T any] struct {
	Value T
	Known bool // the kernel sent the value
}

// known returns an Opt with a value.
func known[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Owner is the creator of an object.
type Owner struct {
	// TID is the thread that created the object, as numbered in the caller's PID
	// namespace. iproute2 calls it pid. TID is 0 if a kernel module created the object, if
	// the thread has ended (its process may still exist), or if the thread belongs to
	// another PID namespace. Go ends threads and moves goroutines between threads, so the
	// objects of one Go process have different TIDs. [Owner.PID] returns the process.
	TID    uint32
	Kernel string // the kernel module, for instance ib_core; empty if a process created the object
}

// PID returns the process that the thread belongs to, as numbered in the caller's PID
// namespace. For the calling process it needs no /proc. The error matches [ErrNoProcess]
// if TID is 0 or the thread has ended. Another object of the same context may then have a
// thread that still exists.
func (o Owner) PID() (int, error) {
	if o.TID != 0 && isOwnThread(o.TID) {
		return os.Getpid(), nil
	}
	return o.PIDIn(os.DirFS("/proc"))
}

// PIDIn is like PID, and reads the given /proc, which must be that of the caller's PID
// namespace.
func (o Owner) PIDIn(proc fs.FS) (int, error) {
	op := operation{"find the process of", fmt.Sprintf("thread %d", o.TID)}
	if o.TID == 0 {
		return 0, op.failed(ErrNoProcess)
	}
	status, err := fs.ReadFile(proc, fmt.Sprintf("%d/status", o.TID))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, op.failed(fmt.Errorf("%w: %w", ErrNoProcess, err))
	}
	if err != nil {
		return 0, op.failed(err)
	}
	for line := range strings.Lines(string(status)) {
		if number, ok := strings.CutPrefix(line, "Tgid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil {
				return 0, op.failed(err)
			}
			return pid, nil
		}
	}
	return 0, op.failed(errors.New("its status has no Tgid"))
}

// parseCommon parses the attributes that objects of all kinds have.
func parseCommon(a *attributes, o *Owner, d *[]DriverAttr) {
	if a.typ == abi.RDMA_NLDEV_ATTR_DRIVER {
		*d = parseDriver(a)
		return
	}
	parseOwner(a, o)
}

func parseOwner(a *attributes, o *Owner) {
	switch a.typ {
	case abi.RDMA_NLDEV_ATTR_RES_PID:
		o.TID = a.uint32()
	case abi.RDMA_NLDEV_ATTR_RES_KERN_NAME:
		o.Kernel = a.string()
	}
}

// DriverKind is the type of a driver's attribute.
type DriverKind uint16

// The types of drivers' attributes.
const (
	DriverString DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_STRING
	DriverS32    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_S32
	DriverU32    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_U32
	DriverS64    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_S64
	DriverU64    DriverKind = abi.RDMA_NLDEV_ATTR_DRIVER_U64
)

// DriverAttr is an attribute that is specific to a driver.
type DriverAttr struct {
	Name   string
	Kind   DriverKind
	Hex    bool   // the driver asks for hexadecimal
	Text   string // the value of a DriverString
	Number uint64 // the value of the other kinds; signed numbers are sign-extended
}

// String returns the value without the name.
func (d DriverAttr) String() string {
	switch {
	case d.Kind == DriverString:
		return d.Text
	case d.Hex && d.Kind == DriverS32:
		return fmt.Sprintf("%#x", uint32(d.Number))
	case d.Hex:
		return fmt.Sprintf("%#x", d.Number)
	case d.Kind == DriverS32 || d.Kind == DriverS64:
		return strconv.FormatInt(int64(d.Number), 10)
	}
	return strconv.FormatUint(d.Number, 10)
}

// parseDriver parses the driver's attributes. Each is a name, an optional print type and a
// value. A value of an unknown type is dropped together with its name.
func parseDriver(a *attributes) []DriverAttr {
	var all []DriverAttr
	var d DriverAttr
	named := false
	in := a.inside()
	for in.next() {
		switch {
		case in.typ == abi.RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE:
			d.Hex = in.uint8() == abi.RDMA_NLDEV_PRINT_TYPE_HEX
		case named:
			if d.value(&in) {
				all = append(all, d)
			}
			d, named = DriverAttr{}, false
		case in.typ == abi.RDMA_NLDEV_ATTR_DRIVER_STRING:
			d.Name, named = in.string(), true
		}
	}
	in.require(!named, abi.RDMA_NLDEV_ATTR_DRIVER_ENTRY)
	a.adopt(&in)
	return all
}

// value parses the value, and reports whether its type is known.
func (d *DriverAttr) value(a *attributes) bool {
	d.Kind = DriverKind(a.typ)
	switch d.Kind {
	case DriverString:
		d.Text = a.string()
	case DriverS32:
		d.Number = uint64(int64(int32(a.uint32())))
	case DriverU32:
		d.Number = uint64(a.uint32())
	case DriverS64, DriverU64:
		d.Number = a.uint64()
	default:
		return false
	}
	return true
}
