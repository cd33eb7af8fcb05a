package msg

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"

	"github.com/goverbs/goverbs/verbs"
)

// Region is registered memory of this process, for one-sided operations of its own and,
// with rights, of the peer. It is pinned until Close, or until its connection or its pool
// is closed.
type Region struct {
	heap   *heap
	domain any // within which its keys are good
	mem    memory
	data   []byte
	rights Rights
	users  atomic.Int64 // work requests; below 0: closed
}

const regionClosed = -1 << 62

// Register registers b for this connection, or for all of its pool.
func (c *Conn) Register(b []byte, rights Rights) (*Region, error) {
	if p := c.shape.pool; p != nil {
		return p.Register(b, rights)
	}
	return register(c.heap, c.domain, b, rights)
}

func register(h *heap, domain any, b []byte, rights Rights) (*Region, error) {
	if rights&^(MayRead|MayWrite|MayAtomic) != 0 || len(b) == 0 {
		return nil, &Error{"register", fmt.Errorf("%d bytes with rights %v: %w", len(b), rights, syscall.EINVAL)}
	}
	access := verbs.AccessLocalWrite
	for right, a := range map[Rights]verbs.Access{MayRead: verbs.AccessRemoteRead, MayWrite: verbs.AccessRemoteWrite, MayAtomic: verbs.AccessRemoteAtomic} {
		if rights&right != 0 {
			access |= a
		}
	}
	mem, err := h.add(b, access)
	if err != nil {
		return nil, failed("register", err)
	}
	return &Region{heap: h, domain: domain, mem: mem, data: b, rights: rights}, nil
}

// Bytes is the memory.
func (r *Region) Bytes() []byte { return r.data }

// Remote describes the region for a peer.
func (r *Region) Remote() RemoteRegion {
	return RemoteRegion{Addr: r.mem.Addr(), Length: uint64(len(r.data)), RKey: r.mem.RKey(), Rights: r.rights}
}

// Span is n bytes of the region from off on. It panics if they are not all of the
// region's, as slicing does.
func (r *Region) Span(off, n int) Span {
	_ = r.data[off : off+n]
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

// Close ends the registration. ErrInUse means that the device may still use the memory
// for an operation of a connection that is still open. Another Close may succeed later, as
// after any error but one that matches net.ErrClosed.
func (r *Region) Close() error {
	if r == nil {
		return errNil("close region")
	}
	if !r.users.CompareAndSwap(0, regionClosed) {
		if r.users.Load() < 0 {
			return &Error{"close region", net.ErrClosed}
		}
		return &Error{"close region", ErrInUse}
	}
	err := r.heap.remove(r.mem)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		r.users.Add(-regionClosed) // so that another Close can try again
	}
	return failed("close region", err)
}
