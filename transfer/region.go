package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/topo"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Region is memory of this program that is registered with all devices of an engine.
type Region struct {
	engine *Engine
	access verbs.Access
	data   []byte
	addr   uint64
	length int
	mrs    []*uverbs.MR
	from   []topo.Distance // of the memory from each device; nil if nothing is known
	users  atomic.Int64    // work requests that use it; negative after Close
}

const (
	remoteAccess = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	regionClosed = math.MinInt64 / 2
)

// Register registers memory: a Go slice, which stays in place until the region is closed, or a mapping, which must
// outlive the region. access says what peers may do: verbs.AccessRemoteRead, AccessRemoteWrite, both, or 0. The
// engine's own operations may read and write the memory in any case.
func (e *Engine) Register(b []byte, access verbs.Access) (*Region, error) {
	r := &Region{engine: e, access: access, data: b, length: len(b)}
	r, err := e.register(r, func(pd *uverbs.PD, a verbs.Access) (*uverbs.MR, error) { return pd.RegMR(b, a) })
	if err == nil {
		if node, known := nodeOf(b); known {
			r.from = e.distances(func(d *topo.Device) topo.Distance { return d.FromNode(node) })
		}
	}
	return r, err
}

// RegisterDMABuf registers n bytes of a DMA buffer, such as memory of a GPU, from off on. The file is not needed
// afterwards. Devices and kernels that can't do it return an error that matches errors.ErrUnsupported. The region's
// Bytes are nil. docs/transfers.md shows how a program that owns memory of a GPU passes a buffer on.
//
// gpu is the PCI address of the GPU, such as "0000:1b:00.0". The rails over the devices that are nearest to it are
// preferred. If gpu is empty, all are alike. An unknown address is an error that matches os.ErrNotExist.
func (e *Engine) RegisterDMABuf(buf *os.File, off uint64, n int, access verbs.Access, gpu string) (*Region, error) {
	r := &Region{engine: e, access: access, length: n}
	if gpu != "" {
		at := e.topology.Device(gpu)
		if at == nil {
			return nil, failed("register", fmt.Sprintf("%d bytes", n), "", fmt.Errorf("no PCI function has the address %q: %w", gpu, os.ErrNotExist))
		}
		r.from = e.distances(func(d *topo.Device) topo.Distance { return topo.Between(d, at) })
	}
	return e.register(r, func(pd *uverbs.PD, a verbs.Access) (*uverbs.MR, error) { return pd.RegDMABuf(buf, off, n, off, a) })
}

func (e *Engine) register(r *Region, create func(*uverbs.PD, verbs.Access) (*uverbs.MR, error)) (*Region, error) {
	const op = "register"
	object := fmt.Sprintf("%d bytes", r.length)
	if r.access&^remoteAccess != 0 {
		return nil, failed(op, object, "", fmt.Errorf("access %v is not remote read or write: %w", r.access, syscall.EINVAL))
	}
	e.registering.RLock()
	defer e.registering.RUnlock()
	if e.isClosed() {
		return nil, failed(op, object, "", net.ErrClosed)
	}
	for _, pd := range e.pds {
		mr, err := create(pd, verbs.AccessLocalWrite|r.access)
		if err != nil {
			return nil, failed(op, object, "", errors.Join(err, r.deregister()))
		}
		r.mrs = append(r.mrs, mr)
	}
	r.addr = r.mrs[0].Addr()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.regions[r] = struct{}{}
	return r, nil
}

// distances returns the distance from each device of the engine to something.
func (e *Engine) distances(to func(*topo.Device) topo.Distance) (all []topo.Distance) {
	for _, pd := range e.pds {
		d := topo.Unknown
		if at := e.topology.RDMA(pd.Device().Info().Name); at != nil {
			d = to(at)
		}
		all = append(all, d)
	}
	return all
}

func (e *Engine) isClosed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// deregister closes the MRs that are still open.
func (r *Region) deregister() error {
	var errs []error
	for _, mr := range r.mrs {
		errs = append(errs, ignoreClosed(mr.Close()))
	}
	return errors.Join(errs...)
}

// Bytes returns the memory, or nil if it is a DMA buffer.
func (r *Region) Bytes() []byte { return r.data }

// Len returns the length of the memory in bytes.
func (r *Region) Len() int { return r.length }

// Span returns the n bytes that start at off. It panics if they are not within the region, as slicing does.
func (r *Region) Span(off, n int) Span {
	if off < 0 || n < 0 || off > r.length || n > r.length-off {
		panic(fmt.Sprintf("transfer: span of %d bytes at %d in a region of %d", n, off, r.length))
	}
	return Span{r, off, n}
}

// Span is a part of a [Region].
type Span struct {
	region *Region
	off, n int
}

// use keeps the region from being closed.
func (r *Region) use() error {
	if r.users.Add(1) < 0 {
		r.users.Add(-1)
		return net.ErrClosed
	}
	return nil
}

// Close ends the registration. Operations of peers on the memory fail from then on. The error matches verbs.ErrInUse
// while a device may still access the memory for an operation of this engine, even a canceled one. Close may be called
// again after an error, unless that matches net.ErrClosed.
func (r *Region) Close() error {
	if r == nil {
		return failed("close", "region", "", os.ErrInvalid)
	}
	object := fmt.Sprintf("region of %d bytes", r.length)
	if !r.users.CompareAndSwap(0, regionClosed) {
		if r.users.Load() < 0 {
			return failed("close", object, "", net.ErrClosed)
		}
		return failed("close", object, "", verbs.ErrInUse)
	}
	if err := r.deregister(); err != nil {
		r.users.Add(-regionClosed)
		return failed("close", object, "", err)
	}
	r.engine.mu.Lock()
	defer r.engine.mu.Unlock()
	delete(r.engine.regions, r)
	return nil
}

// Format implements [fmt.Formatter]. It prints length and rights, never the memory.
func (r *Region) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "transfer region of %d bytes, access %v", r.length, r.access)
}

// Remote is a region of a peer, by the descriptor that the peer made.
type Remote struct {
	engine       [16]byte
	access       verbs.Access
	addr, length uint64
	keys         []uint32
}

// A descriptor is a header and the key of the region for each device. All numbers are big-endian.
//
//	0   4  magic
//	4   1  version
//	5   1  1 for remote read, 2 for remote write
//	6   2  number of keys
//	8  16  engine
//	24  8  address
//	32  8  length
//	40  4  for each key
const (
	descriptorHeader = 40
	mayRead          = 1
	mayWrite         = 2
)

// Descriptor returns a description of the region for peers, in bytes that may travel in any way. It contains the keys
// that give access to the memory, so only those who may have it should see it.
func (r *Region) Descriptor() []byte {
	b := append(make([]byte, 0, descriptorHeader+4*len(r.mrs)), descriptorMagic[:]...)
	var rights byte
	if r.access&verbs.AccessRemoteRead != 0 {
		rights |= mayRead
	}
	if r.access&verbs.AccessRemoteWrite != 0 {
		rights |= mayWrite
	}
	b = append(b, version, rights)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.mrs)))
	b = append(b, r.engine.id[:]...)
	b = binary.BigEndian.AppendUint64(b, r.addr)
	b = binary.BigEndian.AppendUint64(b, uint64(r.length))
	for _, mr := range r.mrs {
		b = binary.BigEndian.AppendUint32(b, mr.RKey())
	}
	return b
}

// ParseDescriptor decodes the result of [Region.Descriptor]. It checks that the numbers make sense, but only a peer's
// device knows whether they are true.
func ParseDescriptor(b []byte) (*Remote, error) {
	bad := func(format string, args ...any) (*Remote, error) {
		return nil, failed("parse", "descriptor", "", fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...)))
	}
	if len(b) < descriptorHeader {
		return bad("it has %d bytes, the least is %d", len(b), descriptorHeader)
	}
	n := int(binary.BigEndian.Uint16(b[6:]))
	r := &Remote{engine: [16]byte(b[8:]), addr: binary.BigEndian.Uint64(b[24:]), length: binary.BigEndian.Uint64(b[32:])}
	switch {
	case [4]byte(b) != descriptorMagic:
		return bad("it begins with %q", b[:4])
	case b[4] != version:
		return bad("it is of version %d, this end knows version %d", b[4], version)
	case b[5]&^(mayRead|mayWrite) != 0:
		return bad("it has rights %#x", b[5])
	case n == 0 || n > maxDevices:
		return bad("it has keys for %d devices", n)
	case len(b) != descriptorHeader+4*n:
		return bad("it has %d bytes, with keys for %d devices", len(b), n)
	case r.length == 0 || r.length > math.MaxInt || r.addr+r.length < r.addr:
		return bad("it has a region of %d bytes at %#x", r.length, r.addr)
	}
	if b[5]&mayRead != 0 {
		r.access |= verbs.AccessRemoteRead
	}
	if b[5]&mayWrite != 0 {
		r.access |= verbs.AccessRemoteWrite
	}
	for b = b[descriptorHeader:]; len(b) > 0; b = b[4:] {
		r.keys = append(r.keys, binary.BigEndian.Uint32(b))
	}
	return r, nil
}

// Len returns the length of the region in bytes.
func (r *Remote) Len() uint64 { return r.length }

// Format implements [fmt.Formatter]. It prints length and rights, never keys.
func (r *Remote) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "remote region of %d bytes, access %v", r.length, r.access)
}
