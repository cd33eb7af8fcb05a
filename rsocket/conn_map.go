package rsocket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/netconn"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Mapping is memory that the peer may write to with WriteAt.
type Mapping struct {
	all   *mappings
	index int
	mr    *uverbs.MR
}

// mappings holds the mappings that have an entry in the peer's table.
type mappings struct {
	mu     sync.Mutex // guards the fields below
	most   int        // entries of the table
	held   []*Mapping // by entry; nil if the entry is free
	closed bool
}

// Map lets the peer write to b with WriteAt or riowrite. offset is the peer's offset of the first byte. b
// stays pinned until the mapping or the connection is closed. Map waits, as Write does, until it can send
// the mapping to the peer. The peer has the mapping before it can read data that is written afterwards.
//
// Writes of the peer are not reported. Parts of the peer's data may be in b at any time. All of it is
// there once the program has read data that the peer sent after the write.
//
// If the peer's table is full, or it has none, the error matches syscall.ENOMEM. Each mapping uses one
// credit. A peer that runs librdmacm does not return it, so each mapping reduces the number of messages
// that may be under way to such a peer.
//
// C: riomap with PROT_WRITE
func (c *Conn) Map(b []byte, offset int64) (*Mapping, error) {
	if offset < 0 || len(b) == 0 || uint64(len(b)) > math.MaxUint32 {
		return nil, c.conn.Fail("map", syscall.EINVAL)
	}
	m, err := c.mappings.add(c.conn.RC.PD(), b)
	if err != nil {
		return nil, c.conn.Fail("map", err)
	}
	entry := mapping{uint64(offset), offer{m.mr.Addr(), m.mr.RKey(), uint32(len(b))}}
	announce := func(p netconn.Protocol, b []byte, i uint64) (int, error) { return p.(*hooks).stream.announce(b, i) }
	if _, err := c.conn.Send(entry.marshal(c.stream.peer.order()), uint64(m.index), announce); err != nil {
		_ = m.Close()
		return nil, err
	}
	return m, nil
}

// WriteAt writes b to the memory that the peer has mapped at an offset. It returns once all of it is sent or
// in the send buffer. The peer's program is not involved and gets no notice. Data that is written afterwards
// arrives later. A mapping of the peer is known once Read has returned data that the peer wrote after Map.
// If a byte of the range is not mapped, the bytes before it are written, and the error matches
// [ErrNotMapped].
//
// The write deadline applies. WriteAt does not notice that the peer has closed a mapping. Writing to such
// a mapping ends the connection.
//
// C: riowrite
func (c *Conn) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, c.conn.Fail("write", syscall.EINVAL)
	}
	return c.conn.Send(b, uint64(off), func(p netconn.Protocol, b []byte, off uint64) (int, error) { return p.(*hooks).stream.writeAt(b, off) })
}

// Close ends the mapping. The peer gets no notice, so the two programs must agree that it does not write
// any more: a later write ends the connection. A second Close returns an error that matches net.ErrClosed.
// So does a Close after that of the connection, which closes all its mappings.
//
// C: riounmap
func (m *Mapping) Close() error {
	if m == nil {
		return netconn.CloseNil("mapping")
	}
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	if m.all.held[m.index] != m {
		return netconn.OpError(protocol, "close", netip.AddrPort{}, netip.AddrPort{}, net.ErrClosed)
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

// add registers memory and assigns it an entry.
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
		return nil, fmt.Errorf("the peer takes at most %d mappings at a time: %w", ms.most, syscall.ENOMEM)
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

// Close closes all remaining mappings, at the end of the connection.
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

// mapping is an entry in the table of mappings: memory of the peer, and the offset of its first byte.
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

// gotMapping copies an entry that the peer wrote. The peer may write again at any time, so the entry is read
// once.
func (s *stream) gotMapping(i uint32) error {
	if uint64(i) >= uint64(len(s.mapped)) {
		return violation("mapping %d of at most %d", i, len(s.mapped))
	}
	entry := s.own.mappings[i*mappingSize:][:mappingSize]
	var b [offerSize]byte
	binary.NativeEndian.PutUint64(b[:], loadWord(entry[8:]))
	binary.NativeEndian.PutUint64(b[8:], loadWord(entry[16:]))
	s.mapped[i] = mapping{loadWord(entry), parseOffer(b[:], ownOrder)}
	return s.gotData(0)
}

// find returns the memory that the peer has mapped at an offset and after it.
func (s *stream) find(offset uint64) (offer, bool) {
	for _, m := range s.mapped {
		if skip := offset - m.offset; offset >= m.offset && skip < uint64(m.memory.length) {
			return offer{m.memory.addr + skip, m.memory.key, m.memory.length - uint32(skip)}, true
		}
	}
	return offer{}, false
}

// writeAt sends as much of b to the peer's memory as possible now.
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
	case s.silent || !s.hasSlots(1):
		return 0, nil
	}
	n, ring := s.load(to.fit(b))
	if n == 0 {
		return 0, nil
	}
	s.m.to, s.m.bare = to.take(n), true
	return n, s.send(1, ring)
}

// announce writes an entry of the peer's table of mappings, if that is possible now.
func (s *stream) announce(entry []byte, i uint64) (int, error) {
	if err := s.unwritable(); err != nil || !s.hasCredit() {
		return 0, err
	}
	at := uint64(s.peer.table.length)*offerSize + i*mappingSize
	s.m = message{word: newWord(opIOMap, uint32(i)), inline: entry, to: offer{s.peer.table.addr + at, s.peer.table.key, mappingSize}}
	return mappingSize, s.sendCredited(0)
}

// Format implements [fmt.Formatter]. It prints the entry, never the memory.
func (m *Mapping) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "rsocket mapping %d", m.index) }
