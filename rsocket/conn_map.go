package rsocket

import (
	"encoding/binary"
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

// mapping is an entry in the table of mappings: memory of the peer's, and the offset that
// both sides know its beginning by.
type mapping struct {
	offset uint64
	memory offer
}

const mappingSize = 8 + offerSize

func (m mapping) marshal(order binary.ByteOrder) []byte {
	b := make([]byte, mappingSize)
	order.PutUint64(b, m.offset)
	m.memory.put(b[8:], order)
	return b
}

// gotMapping takes over an entry that the peer wrote. The peer may write again at any
// time, so the entry is read once.
func (s *stream) gotMapping(i uint32) error {
	if uint64(i) >= uint64(len(s.mapped)) {
		return violation("mapping %d, there is room for %d", i, len(s.mapped))
	}
	entry := s.own.mappings[i*mappingSize:][:mappingSize]
	var b [offerSize]byte
	binary.NativeEndian.PutUint64(b[:], loadWord(entry[8:]))
	binary.NativeEndian.PutUint64(b[8:], loadWord(entry[16:]))
	s.mapped[i] = mapping{loadWord(entry), parseOffer(b[:], ownOrder)}
	return s.gotData(0)
}

// find returns what the peer has mapped from an offset on.
func (s *stream) find(offset uint64) (offer, bool) {
	for _, m := range s.mapped {
		if skip := offset - m.offset; offset >= m.offset && skip < uint64(m.memory.length) {
			return offer{m.memory.addr + skip, m.memory.key, m.memory.length - uint32(skip)}, true
		}
	}
	return offer{}, false
}

// writeAt sends as much of b to the peer's memory as may be sent now.
func (s *stream) writeAt(b []byte, offset uint64) (written int, err error) {
	for written < len(b) {
		n := 0
		if n, err = s.writeOneAt(b[written:], offset+uint64(written)); n == 0 {
			break
		}
		written += n
	}
	return written, err
}

func (s *stream) writeOneAt(b []byte, offset uint64) (int, error) {
	if err := s.unwritable(); err != nil {
		return 0, err
	}
	to, ok := s.find(offset)
	switch {
	case !ok:
		return 0, ErrNotMapped
	case s.silent || s.slots == 0:
		return 0, nil
	}
	n, ring := s.load(to.fit(b))
	if n == 0 {
		return 0, nil
	}
	s.m.to, s.m.bare = to.take(n), true
	return n, s.send(1, ring)
}

// announce writes an entry of the peer's table of mappings, if that may be sent now.
func (s *stream) announce(entry []byte, i uint64) (int, error) {
	if err := s.unwritable(); err != nil || !s.mayTell() {
		return 0, err
	}
	at := uint64(s.peer.table.length)*offerSize + i*mappingSize
	s.m = message{word: newWord(opIOMap, uint32(i)), inline: entry, to: offer{s.peer.table.addr + at, s.peer.table.key, mappingSize}}
	return mappingSize, s.tell(0)
}
