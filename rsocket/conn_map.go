package rsocket

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Mapping is memory that the peer may write to.
type Mapping struct {
	all   *mappings
	index int
	mr    *uverbs.MR
}

// mappings are those that have a place in the peer's table.
type mappings struct {
	mu     sync.Mutex // guards what follows
	most   int        // places in the table
	held   []*Mapping // by place; nil where it is free
	closed bool
}

// Map lets the peer write to b with its WriteAt or riowrite, where offset stands for the
// first byte. b stays pinned until the mapping or the connection is closed. Map waits, as
// Write does, until the peer can be told. The peer knows of the mapping before it can read
// what is written afterwards.
//
// Nobody is told what the peer writes. The program may look at b after it has read data
// that the peer sent behind it; before, parts of it may be there already.
//
// If the peer's table is full, or it has none, the error matches syscall.ENOMEM. Each
// mapping takes one credit, which librdmacm does not give back: the more mappings such a
// peer is told of over a connection's life, the fewer messages may be under way to it.
//
// C: riomap with PROT_WRITE
func (c *Conn) Map(b []byte, offset int64) (*Mapping, error) {
	if offset < 0 || len(b) == 0 || uint64(len(b)) > math.MaxUint32 {
		return nil, c.fail("map", syscall.EINVAL)
	}
	m, err := c.mappings.add(c.rc.PD(), b)
	if err != nil {
		return nil, c.fail("map", err)
	}
	entry := mapping{uint64(offset), offer{m.mr.Addr(), m.mr.RKey(), uint32(len(b))}}
	if _, err := c.sendAll(entry.marshal(c.stream.peer.order()), uint64(m.index), (*stream).announce); err != nil {
		_ = m.Close()
		return nil, err
	}
	return m, nil
}

// WriteAt writes b to the memory that the peer has mapped at an offset. It returns when
// all is sent or in the send buffer. The peer's program does nothing for it and does not
// learn of it; data that is written afterwards arrives later. The peer's mapping is known
// once Read has returned what the peer wrote behind it. If there is none at some byte,
// those before it are written, and the error matches [ErrNotMapped].
//
// The write deadline holds. A mapping that the peer has closed is written to all the
// same, which ends the connection.
//
// C: riowrite
func (c *Conn) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, c.fail("write", syscall.EINVAL)
	}
	return c.sendAll(b, uint64(off), (*stream).writeAt)
}

// Close takes the memory back. The peer is not told: the two programs have to agree that
// nothing is written any more, because a write that comes later ends the connection.
// A second Close returns an error that matches net.ErrClosed, and so does one after that of
// the connection, which closes all mappings.
//
// C: riounmap
func (m *Mapping) Close() error {
	if m == nil {
		return os.ErrInvalid
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	if m.all.held[m.index] != m {
		return &net.OpError{Op: "close", Net: network, Err: net.ErrClosed}
	}
	return m.close()
}

func (m *Mapping) close() error {
	err := m.mr.Close()
	if err == nil {
		m.all.held[m.index] = nil
	}
	return err
}

// add registers memory and gives it a place.
func (ms *mappings) add(pd *uverbs.PD, b []byte) (*Mapping, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.closed {
		return nil, net.ErrClosed
	}
	i := slices.Index(ms.held, nil)
	if i < 0 {
		i = len(ms.held)
	}
	if i == ms.most {
		return nil, fmt.Errorf("the peer takes %d mappings at a time: %w", ms.most, syscall.ENOMEM)
	}
	mr, err := pd.RegMR(b, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	if i == len(ms.held) {
		ms.held = append(ms.held, nil)
	}
	ms.held[i] = &Mapping{all: ms, index: i, mr: mr}
	return ms.held[i], nil
}

// Close closes all that are left, at the end of the connection.
func (ms *mappings) Close() error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.closed = true
	var errs []error
	for _, m := range ms.held {
		if m != nil {
			errs = append(errs, m.close())
		}
	}
	return errors.Join(errs...)
}
