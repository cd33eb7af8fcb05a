package rdmacm

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

// Conn is a connected queue pair, or a datagram queue pair without a connection, together with
// its protection domain, its two completion queues and the device, which it may share with other
// connections. Post work to QP. The methods of Conn may be called concurrently.
type Conn struct {
	hub *hub
	id  *ID

	pd          *uverbs.PD
	qp          *uverbs.QP
	local       netip.AddrPort
	remote      netip.AddrPort
	port        atomic.Int64 // an event may end the connection while the addresses are queried again
	depth       int          // see InitiatorDepth
	privateData []byte       // the peer's
	announced   []byte       // ours
	ownSendCQ   bool         // no other connection or program polls it
	peer        *Peer

	setup     chan *Event // the events of connection set-up
	turn      chan func() // runs functions on the goroutine that waits for setup
	ending    conn.Ending
	peerLeft  atomic.Bool // the peer disconnected, and was answered
	confirmed atomic.Bool // EventEstablished has been delivered

	closing     sync.Mutex
	established bool // and this side has not disconnected
	groups      []*Group
	link        conn.Owned // hub, ID, QP
	verbs       conn.Owned // PD, completion channel, CQs, arguments of Own
	device      conn.Owned // is freed once verbs is empty
	room        struct {   // backs the slices above; few Conns need more
		link   [4]io.Closer
		verbs  [8]io.Closer
		device [1]io.Closer
	}
	closed bool
}

func newConn(h *hub) *Conn {
	c := &Conn{hub: h, setup: make(chan *Event, 8), turn: make(chan func())}
	c.ending.Init()
	c.link, c.verbs, c.device = c.room.link[:0], c.room.verbs[:0], c.room.device[:0]
	return c
}

// QP returns the queue pair. The Conn owns it, so don't close it.
func (c *Conn) QP() *uverbs.QP { return c.qp }

// PD returns the protection domain, for registering memory. Close objects created in it before the
// Conn, or pass them to [Conn.Own].
func (c *Conn) PD() *uverbs.PD { return c.pd }

// SendCQ returns the completion queue of posted sends.
func (c *Conn) SendCQ() *uverbs.CQ { return c.qp.SendCQ() }

// RecvCQ returns the completion queue of receives.
func (c *Conn) RecvCQ() *uverbs.CQ { return c.qp.RecvCQ() }

// Device returns the device that the connection runs over.
func (c *Conn) Device() *uverbs.Device { return c.pd.Device() }

// DevicePort returns the number of the device's port that the connection runs over. Ports are
// numbered from 1, as for uverbs.Device.QueryPort.
//
// C: id->port_num
func (c *Conn) DevicePort() int { return int(c.port.Load()) }

// LocalAddr returns this end's address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr returns the peer's address and port. Without a peer it is invalid.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// InitiatorDepth returns how many RDMA READs and atomics the queue pair may issue at a time, as both sides have agreed.
//
// C: struct rdma_conn_param's initiator_depth
func (c *Conn) InitiatorDepth() int { return c.depth }

// PrivateData returns the private data that the peer sent with its request, or with its answer.
// InfiniBand and RoCE pad it with zeros to 56 or 196 bytes, and for datagrams to 180 or 136.
func (c *Conn) PrivateData() []byte { return c.privateData }

// SetPrivateData replaces Config.PrivateData, which goes to the peer with the request or with the
// answer to it. Call it in Config.Prepare, where the keys of regions become known. Later calls
// have no effect.
func (c *Conn) SetPrivateData(private []byte) { c.announced = private }

// Own passes an object created in PD, such as a memory region, to the Conn. Conn.Close closes it
// after the queue pair and before PD. Prepare must pass on the objects that it creates, because
// if the attempt fails only the Conn can free them. If the Conn is closed already, Own closes the
// object at once. A memory window of type 2 must be closed before the queue pair, so the caller
// has to close it. The object's Close must not call Close, Disconnect or Own of the Conn, because
// these calls would wait for it forever.
func (c *Conn) Own(child io.Closer) {
	c.closing.Lock()
	closed := c.closed
	if !closed {
		c.verbs.Add(child)
	}
	c.closing.Unlock()
	if !closed || child.Close() == nil { // Close may call the Conn
		return
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	c.verbs.Add(child)
}

func (c *Conn) event(ev *Event) {
	switch ev.Type {
	case EventDisconnected:
		if !c.id.isIWARP() {
			_ = c.id.Disconnect() // else the peer asks again until it gives up
		}
		c.peerLeft.Store(true)
		c.ending.End(ErrDisconnected)
	case EventDeviceRemoval:
		c.id.failQP()
		c.ending.End(ErrDeviceRemoved)
	case EventAddrChange, EventTimewaitExit:
		// Nothing to do: the connection stays as it is, or is over already.
	default:
		if ev.Type == EventEstablished {
			c.confirmed.Store(true)
		}
		select {
		case c.setup <- ev:
		default: // no kernel sends this many
		}
		if ev.Type == EventRejected && c.ending.IsEstablished() {
			c.rejected()
		}
	}
}

// rejected ends a connection that the peer has rejected although it is established on this side: its
// program gave up before the confirmation arrived.
func (c *Conn) rejected() {
	select {
	case ev := <-c.setup:
		if ev.Type == EventRejected {
			c.ending.End(fmt.Errorf("%w: %w", ErrDisconnected, ev.Err))
		}
	default:
	}
}

// failing implements sink. A completion with an error that nobody has polled yet came before the event.
func (c *Conn) failing(cause error) {
	if c.ending.IsOpen() {
		hook.Look(c.qp)
	}
	c.ending.Note(c.because(cause))
}

func (c *Conn) broken(err error) { c.ending.End(err) }

// await waits until the current step of connection set-up is done.
func (c *Conn) await(ctx context.Context, want EventType) (*Event, error) {
	for {
		select {
		case do := <-c.turn:
			do()
			continue
		case ev := <-c.setup:
			return c.outcome(ev, want)
		case <-ctx.Done():
		case <-c.ending.Done():
		}
		select {
		case ev := <-c.setup: // it came first
			return c.outcome(ev, want)
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, c.Err()
	}
}

// tryRun implements sink. It succeeds while a goroutine waits in await.
func (c *Conn) tryRun(do func()) bool {
	select {
	case c.turn <- do:
		return true
	default:
		return false
	}
}

func (c *Conn) outcome(ev *Event, want EventType) (*Event, error) {
	switch {
	case ev.Err != nil:
		return nil, ev.Err
	case ev.Type != want:
		return nil, &verbs.Error{Op: "wait for " + want.String(), Object: c.id.String(), Err: errUnexpected, Hint: ev.Type.String() + " came"}
	}
	return ev, nil
}

// prepare creates the queue pair on the device that the ID is bound to, and calls Config.Prepare.
// If it fails, Close frees the objects that it created.
func (c *Conn) prepare(cfg *Config) error {
	addr, err := c.id.QueryAddr()
	if err != nil {
		return err
	}
	return c.prepareAt(addr, cfg)
}

// prepareAt is prepare with the known address of the ID.
func (c *Conn) prepareAt(addr *Addr, cfg *Config) (err error) {
	c.setAddrs(addr)
	c.announced = cfg.PrivateData
	if err := c.openPD(addr, cfg); err != nil {
		return err
	}
	opts := cfg.QP
	if c.id.datagram {
		opts.Type = verbs.QPTypeUD
	}
	if cfg.PrepareQP != nil {
		if err := cfg.PrepareQP(c, &opts); err != nil {
			return err
		}
	}
	c.ownSendCQ = opts.SendCQ == nil
	if err := conn.MakeCQs(c.Device(), &opts, cfg.RecvCQEntries, &c.verbs, &c.ending); err != nil {
		return err
	}
	if c.qp, err = c.pd.CreateQP(&opts); err != nil {
		return err
	}
	c.link.Add(conn.Freeing(c.freeQP))
	if err := c.id.AttachQP(c.qp); err != nil {
		return err
	}
	c.id.setRNR(cfg)
	if !c.id.datagram { // a failed work request does not end a datagram queue pair
		c.watch()
	}
	if cfg.Prepare != nil {
		return cfg.Prepare(c)
	}
	return nil
}

// openPD takes the caller's protection domain, or allocates one, on the caller's device if there is one.
func (c *Conn) openPD(addr *Addr, cfg *Config) error {
	dev := cfg.ownDevice()
	if dev != nil {
		if err := addr.mustBeOn(dev.Info(), "Config's PD or CQ on"); err != nil {
			return err
		}
	}
	if c.pd = cfg.PD; c.pd != nil {
		return nil
	}
	if dev == nil {
		shared, err := devices.get(addr.DeviceIndex, addr.NodeGUID)
		if err != nil {
			return err
		}
		c.device.Add(conn.Freeing(shared.put))
		dev = shared.dev
	}
	var err error
	if c.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	c.verbs.Add(c.pd)
	return nil
}

// freeUnless frees the Conn if a panic or runtime.Goexit in the caller's Prepare ended the
// attempt.
func (c *Conn) freeUnless(returned *bool) {
	if !*returned {
		_ = c.Close()
	}
}

// connected marks the connection as established.
func (c *Conn) connected() {
	c.closing.Lock()
	defer c.closing.Unlock()
	c.established = !c.id.datagram
	c.ending.Establish()
	c.rejected()
}

func (c *Conn) setAddrs(addr *Addr) {
	c.local, c.remote = addr.Local, addr.Remote
	c.port.Store(int64(addr.Port))
}

// refreshAddrs queries the addresses again.
func (c *Conn) refreshAddrs() error {
	addr, err := c.id.QueryAddr()
	if err != nil {
		return err
	}
	c.setAddrs(addr)
	return nil
}

// Format implements [fmt.Formatter]. It prints the addresses and the state, never memory.
func (c *Conn) Format(f fmt.State, _ rune) {
	state := "open"
	if err := c.Err(); err != nil {
		state = err.Error()
	}
	fmt.Fprintf(f, "rdmacm connection %v to %v, %s", c.local, c.remote, state)
}
