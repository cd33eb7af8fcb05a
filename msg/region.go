package msg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// Region is registered memory of this process, for one-sided operations of the process
// itself and, with rights, of the peer. It is pinned until Close, or until its
// connection or its pool is closed.
type Region struct {
	heap   *heap
	domain any // the protection domain, in which its keys are valid
	mem    memory
	data   []byte
	rights Rights
	users  atomic.Int64 // work requests that use it; negative after Close
}

const regionClosed = -1 << 62

// Register registers b for this connection. For a connection of a pool it is
// [Pool.Register].
func (c *Conn) Register(b []byte, rights Rights) (*Region, error) {
	if p := c.shape.pool; p != nil {
		return p.Register(b, rights)
	}
	if c.isShut() {
		return nil, c.failed("register on", net.ErrClosed)
	}
	r, err := register(c.heap, c.domain, b, rights)
	return r, c.failed("register on", err)
}

func register(h *heap, domain any, b []byte, rights Rights) (*Region, error) {
	if rights&^(MayRead|MayWrite|MayAtomic) != 0 || len(b) == 0 {
		return nil, fmt.Errorf("%d bytes with rights %v: %w", len(b), rights, syscall.EINVAL)
	}
	access := verbs.AccessLocalWrite
	for right, a := range map[Rights]verbs.Access{MayRead: verbs.AccessRemoteRead, MayWrite: verbs.AccessRemoteWrite, MayAtomic: verbs.AccessRemoteAtomic} {
		if rights&right != 0 {
			access |= a
		}
	}
	mem, err := h.add(b, access)
	if err != nil {
		return nil, err
	}
	return &Region{heap: h, domain: domain, mem: mem, data: b, rights: rights}, nil
}

// Bytes returns the memory of the region.
func (r *Region) Bytes() []byte { return r.data }

// Remote returns the description of the region for a peer.
func (r *Region) Remote() RemoteRegion {
	return RemoteRegion{Addr: r.mem.Addr(), Length: uint64(len(r.data)), RKey: r.mem.RKey(), Rights: r.rights}
}

// Span returns the n bytes of the region that start at off. It panics if they are not
// within the region, as slicing does.
func (r *Region) Span(off, n int) Span {
	_ = r.data[off : off+n]
	return Span{r, off, n}
}

// Span is a part of a [Region].
type Span struct {
	region *Region
	off, n int
}

// Bytes returns the memory of the span.
func (s Span) Bytes() []byte {
	if s.region == nil {
		return nil
	}
	return s.region.data[s.off:][:s.n:s.n]
}

// use keeps the region from being closed.
func (r *Region) use() error {
	if r.users.Add(1) < 0 {
		r.users.Add(-1)
		return net.ErrClosed
	}
	return nil
}

func (r *Region) failed(op string, err error) error {
	return failedOn(fmt.Sprintf("region of %d bytes", len(r.data)), op, err)
}

// Close ends the registration. [ErrInUse] means that the device may still use the
// memory for an operation of an open connection. Close may be called again after an
// error, unless that matches net.ErrClosed.
func (r *Region) Close() error {
	if r == nil {
		return errNil("close region")
	}
	if !r.users.CompareAndSwap(0, regionClosed) {
		if r.users.Load() < 0 {
			return r.failed("close", net.ErrClosed)
		}
		return r.failed("close", ErrInUse)
	}
	err := r.heap.remove(r.mem)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		r.users.Add(-regionClosed) // so that another Close can try again
	}
	return r.failed("close", err)
}

// Rights are the operations that a peer may perform on a region. The values combine
// with |.
type Rights uint8

// The rights of a region. MayAtomic is for OpCompareSwap and OpFetchAdd.
const (
	MayRead Rights = 1 << iota
	MayWrite
	MayAtomic
)

func (r Rights) String() string {
	var names []string
	for i, name := range []string{"read", "write", "atomic"} {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if rest := r &^ (MayRead | MayWrite | MayAtomic); rest != 0 || r == 0 {
		names = append(names, fmt.Sprintf("%#x", uint8(rest)))
	}
	return strings.Join(names, "|")
}

// RemoteRegion describes a region of the peer, as returned by [Region.Remote] there.
// Each operation is checked against its length and rights before the device sees it,
// because an operation that a device refuses ends the connection.
type RemoteRegion struct {
	Addr   uint64
	Length uint64
	RKey   uint32
	Rights Rights
}

const remoteSize = 24

// MarshalBinary returns the 24 bytes that docs/messages.md describes.
func (r RemoteRegion) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// AppendBinary appends the result of MarshalBinary to b.
func (r RemoteRegion) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(b, r.Addr)
	b = binary.LittleEndian.AppendUint64(b, r.Length)
	b = binary.LittleEndian.AppendUint32(b, r.RKey)
	return append(b, version, byte(r.Rights), 0, 0), nil
}

// UnmarshalBinary decodes the result of MarshalBinary.
func (r *RemoteRegion) UnmarshalBinary(b []byte) error {
	if len(b) != remoteSize || b[20] != version || b[22] != 0 || b[23] != 0 {
		return failed("decode a remote region", fmt.Errorf("%d bytes, not in this version's format: %w", len(b), syscall.EINVAL))
	}
	got := RemoteRegion{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint32(b[16:]), Rights(b[21])}
	if got.Addr+got.Length < got.Addr || got.Rights&^(MayRead|MayWrite|MayAtomic) != 0 {
		return failed("decode a remote region", fmt.Errorf("%+v: %w", got, syscall.EINVAL))
	}
	*r = got
	return nil
}

// Slice returns the description of the n bytes of the region that start at off.
func (r RemoteRegion) Slice(off, n uint64) (RemoteRegion, error) {
	if err := r.check(off, n, 0); err != nil {
		return RemoteRegion{}, failed("slice", err)
	}
	r.Addr, r.Length = r.Addr+off, n
	return r, nil
}

func (r RemoteRegion) check(off, n uint64, right Rights) error {
	if off > r.Length || n > r.Length-off {
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrOutOfBounds, n, off, r.Length)
	}
	if r.Rights&right != right {
		return fmt.Errorf("%w: %v of a region with rights %v", ErrOutOfBounds, right, r.Rights)
	}
	return nil
}

// Format implements [fmt.Formatter]. It prints length and rights, never the memory.
func (r *Region) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "msg region of %d bytes, rights %v", len(r.data), r.rights)
}
