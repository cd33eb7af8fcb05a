package mooncake

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"

	"github.com/goverbs/goverbs/internal/foreign"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/verbs"
)

var calls = foreign.Get[*transfer.Engine, *transfer.Peer, *transfer.Region, *transfer.Remote]()

// Config has options of a [Segment] or a [Node]. A nil pointer and the zero value stand for the defaults.
type Config struct {
	// Metadata is the URL of a metadata server, such as http://10.0.0.9:8080/metadata. If it is empty, the nodes
	// themselves have the metadata (P2PHANDSHAKE).
	Metadata string

	// HTTP sends the requests to the metadata server. Nil stands for [http.DefaultClient].
	HTTP *http.Client

	// Address is the address of a Node's listener as its peers see it. Only peers that use the metadata server need it.
	// Empty stands for the Node's name.
	Address string

	// Dial opens streams to other nodes. Nil stands for TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Notified is called with each notification that arrives at a Node. Calls may be concurrent, and the peer waits for
	// their end. Nil stands for a function that drops them.
	Notified func(name, message string)
}

// options returns the options with their defaults.
func options(cfg *Config) Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}
	if c.Notified == nil {
		c.Notified = func(string, string) {}
	}
	return c
}

// Segment is the memory of another node: a transfer.Peer that speaks Mooncake's protocol. Its methods may be called
// concurrently.
type Segment struct {
	name    string
	cfg     Config
	id      string // of this Segment, in the paths of this end's devices
	devices []*oob.Config
	peer    *transfer.Peer
	first   *descriptor // as it was when the segment was opened
	buffers []Buffer

	mu    sync.Mutex // guards the field below
	pairs int        // queue pairs of a connection, as the peer wants it
}

// Buffer is a part of a [Segment].
type Buffer struct {
	Location     string // of the memory, as the node names it, such as "cpu:0"
	Addr, Length uint64 // in the node's program
	Remote       *transfer.Remote
}

// Open opens the segment of a node. Without a metadata server, its name is the address of its listener, which the node
// logs. If the node drops a stream, Open tries again, as transfer.Engine.Open does. ctx bounds the attempts only.
//
// Rails that fail are connected again. If one finds that the node's devices or buffers are not those that Open has
// found, operations fail with an error that matches transfer.ErrStale, and the segment has to be opened again.
func Open(ctx context.Context, e *transfer.Engine, name string, cfg *Config) (*Segment, error) {
	s := &Segment{name: name, cfg: options(cfg), devices: calls.Devices(e), pairs: defaultPairs}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	s.id = "goverbs-" + hex.EncodeToString(id[:]) + ":1"
	peer, err := calls.Open(ctx, e, name, s.find)
	if err != nil {
		return nil, err
	}
	s.peer = peer
	for i := range s.first.Buffers {
		b := &s.first.Buffers[i]
		s.buffers = append(s.buffers, Buffer{b.Name, b.Addr, b.Length, calls.Remote(peer, b.memory())})
	}
	return s, nil
}

func (b *buffer) memory() foreign.Memory {
	return foreign.Memory{Addr: b.Addr, Length: b.Length, Keys: b.RKeys}
}

// find reads the node's descriptor.
func (s *Segment) find(ctx context.Context) (*foreign.Peer, error) {
	d, _, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	s.first = d
	p := &foreign.Peer{Devices: len(d.Devices), Connect: s.connect, Target: foreign.Memory{Keys: make([]uint32, len(d.Devices))}}
	if len(d.Buffers) > 0 {
		p.Target = d.Buffers[0].memory()
	}
	return p, nil
}

// describe returns the node's descriptor, and the address of its listener.
func (s *Segment) describe(ctx context.Context) (*descriptor, string, error) {
	d, address := new(descriptor), s.name
	var err error
	if s.cfg.Metadata == "" {
		err = exchange(ctx, s.cfg.Dial, address, kindMetadata, struct{}{}, d)
	} else {
		var at listenerAddress
		err = errors.Join(s.cfg.get(ctx, segmentKey(s.name), d), s.cfg.get(ctx, listenerKey(s.name), &at))
		address = net.JoinHostPort(at.Host, fmt.Sprint(at.Port))
	}
	if err == nil {
		err = d.check()
	}
	return d, address, err
}

// connect connects a rail.
func (s *Segment) connect(ctx context.Context, device, remote, slots int) (foreign.Conn, error) {
	d, address, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	if !d.has(s.first) {
		return nil, transfer.ErrStale
	}
	gid, err := parseGID(d.Devices[remote].GID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	pairs := s.pairs
	s.mu.Unlock()
	ep, answer, err := s.request(ctx, d, address, device, remote, pairs, slots, gid)
	if n := len(answer.Pairs); err != nil && answer.Refusal != "" && n != pairs && answer.checkPairs() == nil {
		s.mu.Lock()
		s.pairs = n
		s.mu.Unlock()
		ep, answer, err = s.request(ctx, d, address, device, remote, n, slots, gid)
	}
	if err != nil {
		return nil, err
	}
	if answer.GID != "" {
		gid, err = parseGID(answer.GID)
	}
	if err == nil {
		err = ep.connect(answer, gid)
	}
	if err != nil {
		_ = ep.Close()
		return nil, err
	}
	return ep, nil
}

// request sends the node a request for a connection of some queue pairs. The answer is never nil.
func (s *Segment) request(ctx context.Context, d *descriptor, address string, device, remote, pairs, slots int, gid verbs.GID) (*endpoint, *handshake, error) {
	answer := new(handshake)
	ep, err := newEndpoint(s.devices[device], pairs, slots, nil, gid)
	if err != nil {
		return nil, answer, err
	}
	q := &handshake{Local: nicPath(s.id, s.devices[device].PD.Device().Info().Name), Peer: d.path(remote)}
	ep.describe(q)
	err = exchange(ctx, s.cfg.Dial, address, kindConnection, q, answer)
	switch {
	case err != nil:
	case answer.Refusal != "":
		err = fmt.Errorf("the node at %s refused: %s: %w", address, quoted(answer.Refusal), syscall.ECONNREFUSED)
	case answer.Local != q.Peer || answer.Peer != q.Local:
		err = violation("the node at %s answered for %s and %s", address, quoted(answer.Local), quoted(answer.Peer))
	case len(answer.Pairs) != pairs:
		err = violation("the node at %s answered with %d queue pairs, not %d", address, len(answer.Pairs), pairs)
	default:
		err = answer.checkPairs()
	}
	if err != nil {
		_ = ep.Close()
		return nil, answer, err
	}
	return ep, answer, nil
}

// Buffers returns the buffers that the node had when Open was called.
func (s *Segment) Buffers() []Buffer { return append([]Buffer(nil), s.buffers...) }

// At returns the Remote and the Offset of an operation on n bytes at an address in the node's program. The error
// matches transfer.ErrOutOfBounds if they are not within one buffer.
func (s *Segment) At(addr uint64, n int) (remote *transfer.Remote, offset uint64, err error) {
	for i := range s.buffers {
		if b := &s.buffers[i]; addr >= b.Addr && addr-b.Addr <= b.Length && n >= 0 && uint64(n) <= b.Length-(addr-b.Addr) {
			return b.Remote, addr - b.Addr, nil
		}
	}
	return nil, 0, failed("find memory of", "segment "+s.name, fmt.Errorf("%w: no buffer has the %d bytes at %#x", transfer.ErrOutOfBounds, n, addr))
}

// Submit is the Submit of transfer.Peer.
func (s *Segment) Submit(ctx context.Context, ops []transfer.Op) (*transfer.Batch, error) {
	return s.peer.Submit(ctx, ops)
}

// Notify sends a notification to the node, which keeps it until its program reads it. It is not ordered with batches:
// wait for those that it concerns. name is that of this program.
func (s *Segment) Notify(ctx context.Context, name, message string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, address, err := s.describe(ctx)
	var answer notification
	if err == nil {
		err = exchange(ctx, s.cfg.Dial, address, kindNotify, &notification{name, message}, &answer)
	}
	if err == nil && answer.Message != success {
		err = violation("the answer is %s", quoted(answer.Message))
	}
	return failed("notify", "segment "+s.name, err)
}

// Close is the Close of transfer.Peer.
func (s *Segment) Close() error {
	if s == nil {
		return failed("close", "segment", os.ErrInvalid)
	}
	return s.peer.Close()
}

// Format implements [fmt.Formatter]. It prints the name, and how many rails are up.
func (s *Segment) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "mooncake segment %s over %v", s.name, s.peer)
}

func failed(op, object string, err error) error {
	if err == nil {
		return nil
	}
	return &verbs.Error{Op: op, Object: object, Err: err}
}
