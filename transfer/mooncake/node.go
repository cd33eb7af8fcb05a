package mooncake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/oob"
	"github.com/goverbs/goverbs/transfer"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// maxEndpoints is how many connections a node has. A queue pair does not notice that its peer has gone.
const maxEndpoints = 4096

// location is the name of the memory of all regions. Nodes in C++ choose a device by it.
const location = "cpu:0"

// Node is a segment of this program, for Mooncake's transfer engines and for [Open]. Its methods may be called
// concurrently.
type Node struct {
	engine  *transfer.Engine
	name    string
	cfg     Config
	devices []*oob.Config
	cqs     []*uverbs.CQ // one a device, for queue pairs that post nothing
	owned   conn.Owned
	done    chan struct{} // closed by Close
	freed   chan struct{} // closed when all is free

	publishing sync.Mutex     // held while the metadata server gets a descriptor
	connecting sync.WaitGroup // requests whose queue pairs are being connected

	mu        sync.Mutex // guards the fields below
	closed    bool
	described publication
	size      int                // bytes of described as a message
	regions   []*transfer.Region // of the buffers of described
	endpoints map[endpointKey]*endpoint
	oldest    []endpointKey // of endpoints
	begun     uint64        // connections
	listeners map[net.Listener]struct{}
	err       error // of the release
}

// endpointKey is a device of the node, and the path of the peer's.
type endpointKey struct {
	device int
	peer   string
}

// NewNode returns a node. Its name is the address of its listener as peers see it, or any if there is a metadata
// server. The node gets the name there at once. Close of the engine closes it, too.
func NewNode(ctx context.Context, e *transfer.Engine, name string, cfg *Config) (*Node, error) {
	n := &Node{engine: e, name: name, cfg: options(cfg), devices: calls.Devices(e), done: make(chan struct{}), freed: make(chan struct{}),
		endpoints: make(map[endpointKey]*endpoint), listeners: make(map[net.Listener]struct{})}
	if err := n.start(ctx); err != nil {
		return nil, n.failed("create", errors.Join(err, n.owned.Free()))
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	if n.name == "" || len(n.name) > maxName {
		return fmt.Errorf("its name has %d bytes, not 1 to %d: %w", len(n.name), maxName, syscall.EINVAL)
	}
	d := &n.described
	d.Name, d.Protocol, d.TCPVersion = n.name, json.RawMessage(`"`+protocolRDMA+`"`), 2
	d.Devices, d.Buffers = []device{}, []buffer{}
	preferred := []string{}
	for _, cfg := range n.devices {
		at, err := locate(cfg, verbs.GID{})
		if err != nil {
			return err
		}
		dev := cfg.PD.Device()
		cq, err := dev.CreateCQ(1, nil)
		if err != nil {
			return err
		}
		n.owned.Add(cq)
		n.cqs = append(n.cqs, cq)
		d.Devices = append(d.Devices, device{dev.Info().Name, at.lid, formatGID(at.gid.GID)})
		preferred = append(preferred, dev.Info().Name)
	}
	d.Matrix = map[string][2][]string{location: {preferred, {}}}
	empty, err := message(kindMetadata, n.snapshot())
	if err != nil {
		return err
	}
	n.size = len(empty) - 8 - 1 // the first buffer has no comma before it
	if n.cfg.Metadata != "" {
		if n.cfg.Address == "" {
			n.cfg.Address = n.name
		}
		host, port, err := net.SplitHostPort(n.cfg.Address)
		if err != nil {
			return err
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fmt.Errorf("the port of %q: %w", n.cfg.Address, syscall.EINVAL)
		}
		if err := n.cfg.put(ctx, listenerKey(n.name), &listenerAddress{host, uint16(number)}); err != nil {
			return err
		}
		if err := n.put(ctx); err != nil {
			return err
		}
	}
	if !calls.Go(n.engine, n.untilClose) {
		return net.ErrClosed
	}
	return nil
}

// put gives the descriptor to the metadata server.
func (n *Node) put(ctx context.Context) error {
	if n.cfg.Metadata == "" {
		return nil
	}
	n.mu.Lock()
	d := n.snapshot()
	n.mu.Unlock()
	return n.cfg.put(ctx, segmentKey(n.name), d)
}

// snapshot returns the descriptor. n.mu is held.
func (n *Node) snapshot() *publication {
	d := n.described
	d.Buffers = slices.Clone(d.Buffers)
	d.Timestamp = time.Now().UTC().Format(time.DateTime)
	return &d
}

// Publish adds a region to the segment. Peers may access it as it was registered, and learn of it when they open the
// segment.
func (n *Node) Publish(ctx context.Context, r *transfer.Region) error {
	n.publishing.Lock()
	defer n.publishing.Unlock()
	m := calls.Memory(r)
	if m.Addr == 0 {
		return n.failed("publish a region of", fmt.Errorf("peers refuse the address 0, so register the DMA buffer with another offset: %w", syscall.EINVAL))
	}
	n.mu.Lock()
	d := &n.described
	err := error(nil)
	if n.closed {
		err = net.ErrClosed
	} else {
		b := buffer{location, m.Addr, m.Length, m.Keys, make([]uint32, len(m.Keys))}
		if size := n.size + b.size(); size > maxMessage {
			err = fmt.Errorf("%d regions need a descriptor of %d bytes, and peers accept %d: %w", len(d.Buffers)+1, size, maxMessage, syscall.EMSGSIZE)
		} else {
			n.size = size
			d.Buffers = append(d.Buffers, b)
			n.regions = append(n.regions, r)
		}
	}
	n.mu.Unlock()
	if err == nil {
		err = n.put(ctx)
	}
	return n.failed("publish a region of", err)
}

// Withdraw removes a region from the segment. Peers that know it may access it until it is closed.
func (n *Node) Withdraw(ctx context.Context, r *transfer.Region) error {
	n.publishing.Lock()
	defer n.publishing.Unlock()
	n.mu.Lock()
	i := slices.Index(n.regions, r)
	if i >= 0 {
		n.size -= n.described.Buffers[i].size()
		n.regions = slices.Delete(n.regions, i, i+1)
		n.described.Buffers = slices.Delete(n.described.Buffers, i, i+1)
	}
	n.mu.Unlock()
	if i < 0 {
		return n.failed("withdraw a region of", fmt.Errorf("it is not published: %w", os.ErrNotExist))
	}
	return n.failed("withdraw a region of", n.put(ctx))
}

// Serve answers the requests of peers over the streams of l, until Close or an error of l, which it returns. It owns l.
// The streams count among the 128 of the engine: see transfer.Engine.Serve. If a peer connects for the 4097th time, the
// oldest connection of the node ends.
func (n *Node) Serve(l net.Listener) error {
	n.mu.Lock()
	closed := n.closed
	n.listeners[l] = struct{}{}
	n.mu.Unlock()
	if closed {
		_ = l.Close()
		return n.failed("serve", net.ErrClosed)
	}
	err := calls.Serve(n.engine, l, n.answer)
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners, l)
	if n.closed {
		err = net.ErrClosed
	}
	return n.failed("serve", err)
}

// answer answers the request of a stream. Its errors concern the peer only.
func (n *Node) answer(s net.Conn) {
	k, b, err := readMessage(s, maxMessage)
	if err != nil {
		return
	}
	var a any
	switch k {
	case kindMetadata:
		n.mu.Lock()
		a = n.snapshot()
		n.mu.Unlock()
	case kindNotify:
		var note notification
		if decode(b, &note) != nil {
			return
		}
		n.cfg.Notified(note.Name, note.Message)
		a = &notification{Message: success}
	case kindProbe:
		a = &probeAnswer{success}
	default:
		var q handshake
		if decode(b, &q) != nil {
			return
		}
		a = n.accept(&q)
	}
	if b, err = message(k, a); err == nil {
		_, _ = s.Write(b)
	}
}

// accept answers the request of a connection.
func (n *Node) accept(q *handshake) *handshake {
	a := &handshake{Local: q.Peer, Peer: q.Local}
	if q.ReadyAck != nil {
		a.ReadyAck = new(bool)
	}
	ep, err := n.connect(q)
	if err != nil {
		a.Refusal = err.Error()
		return a
	}
	ep.describe(a)
	return a
}

// connect returns the connection that a request asks for.
func (n *Node) connect(q *handshake) (*endpoint, error) {
	if _, _, err := splitPath(q.Local); err != nil {
		return nil, err
	}
	name, dev, err := splitPath(q.Peer)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(n.devices, func(c *oob.Config) bool { return c.PD.Device().Info().Name == dev })
	if i < 0 || name != n.name {
		return nil, violation("%s is no device of the node %s", quoted(q.Peer), n.name)
	}
	if err := q.checkPairs(); err != nil {
		return nil, err
	}
	k := endpointKey{i, q.Local}
	if q.ReadyAck != nil && *q.ReadyAck {
		return n.known(k, q.Pairs)
	}
	gid, err := parseGID(q.GID)
	if err != nil {
		return nil, err
	}
	number, err := n.begin(k)
	if err != nil {
		return nil, err
	}
	defer n.connecting.Done()
	ep, err := newEndpoint(n.devices[i], len(q.Pairs), 1, n.cqs[i], gid)
	if err != nil {
		return nil, err
	}
	ep.number = number
	if err = ep.connect(q, gid); err == nil {
		err = n.add(k, ep)
	}
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	return ep, nil
}

// known returns the connection to the queue pairs of a peer.
func (n *Node) known(k endpointKey, pairs []uint32) (*endpoint, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ep := n.endpoints[k]
	if ep == nil || !slices.Equal(ep.peers, pairs) {
		return nil, errors.New("the connection that is said to be ready is not known, or was replaced")
	}
	return ep, nil
}

// begin makes room for a connection, and returns its number. Kernels take up to a second to connect a queue pair to an
// address that does not answer, so the lock is not held meanwhile. The caller calls n.connecting.Done at the end.
func (n *Node) begin(k endpointKey) (number uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return 0, net.ErrClosed
	}
	n.drop(k) // the peer has new queue pairs, even if their numbers are those of the old ones
	n.connecting.Add(1)
	n.begun++
	return n.begun, nil
}

// add adds a connection, unless the peer has replaced it meanwhile.
func (n *Node) add(k endpointKey, ep *endpoint) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return net.ErrClosed
	}
	if other := n.endpoints[k]; other != nil && other.number > ep.number {
		return errors.New("a later request of the peer has replaced this one")
	}
	n.drop(k)
	if len(n.oldest) == maxEndpoints {
		n.drop(n.oldest[0])
	}
	n.endpoints[k] = ep
	n.oldest = append(n.oldest, k)
	return nil
}

// drop closes a connection if there is one. n.mu is held.
func (n *Node) drop(k endpointKey) {
	ep := n.endpoints[k]
	if ep == nil {
		return
	}
	_ = ep.Close()
	delete(n.endpoints, k)
	i := slices.Index(n.oldest, k)
	n.oldest = slices.Delete(n.oldest, i, i+1)
}

// Close ends the connections of peers and the calls of Serve. Regions remain registered. A second Close returns an
// error that matches net.ErrClosed. Close removes the node from a metadata server in the background.
func (n *Node) Close() error {
	if n == nil {
		return failed("close", "node", os.ErrInvalid)
	}
	n.mu.Lock()
	closed := n.closed
	n.closed = true
	n.mu.Unlock()
	if closed {
		return n.failed("close", net.ErrClosed)
	}
	close(n.done)
	<-n.freed
	return n.failed("close", n.err)
}

// untilClose waits for Close, and frees all.
func (n *Node) untilClose(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-n.done:
	}
	n.mu.Lock()
	n.closed = true
	for l := range n.listeners {
		_ = l.Close()
	}
	n.mu.Unlock()
	n.connecting.Wait()
	n.mu.Lock()
	for k := range n.endpoints {
		n.drop(k)
	}
	n.err = n.owned.Free()
	n.mu.Unlock()
	close(n.freed)
	if n.cfg.Metadata != "" {
		go func() {
			for _, key := range []string{segmentKey(n.name), listenerKey(n.name)} {
				_, _ = n.cfg.request(context.Background(), "DELETE", key, nil)
			}
		}()
	}
}

// Format implements [fmt.Formatter]. It prints the name, and how many regions and connections there are.
func (n *Node) Format(f fmt.State, _ rune) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fmt.Fprintf(f, "mooncake node %s, %d regions, %d connections", n.name, len(n.regions), len(n.endpoints))
}

func (n *Node) failed(op string, err error) error { return failed(op, "node "+n.name, err) }
