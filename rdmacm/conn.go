package rdmacm

import (
	"context"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/goverbs/goverbs/uverbs"
)

// Conn is a connected queue pair with what it needs: a protection domain and
// two completion queues to wait on, on a device shared with other connections.
// Or it is a datagram queue pair, which is connected to nobody. Work is posted
// to QP; the methods of Conn may be called concurrently.
type Conn struct {
	hub *hub
	id  *ID

	pd          *uverbs.PD
	qp          *uverbs.QP
	local       netip.AddrPort
	remote      netip.AddrPort
	port        uint32 // the device's
	privateData []byte // the peer's
	announced   []byte // ours
	ownSendCQ   bool   // nobody else reads it
	peer        *Peer

	setup  chan *Event // what comes before the connection stands
	turn   chan func() // for the goroutine that waits for setup
	ending ending
	parted atomic.Bool // the peer disconnected, and was answered

	closing     sync.Mutex
	established bool // and not disconnected by us
	groups      []*Group
	link        owned    // hub, ID, QP
	verbs       owned    // PD, completion channel, CQs, what Own was given
	device      owned    // goes when verbs has gone
	room        struct { // of these, as few Conns have more
		link   [4]io.Closer
		verbs  [8]io.Closer
		device [1]io.Closer
	}
	closed bool
}

func newConn(h *hub) *Conn {
	c := &Conn{hub: h, setup: make(chan *Event, 8), turn: make(chan func()), ending: ending{done: make(chan struct{})}}
	c.link, c.verbs, c.device = c.room.link[:0], c.room.verbs[:0], c.room.device[:0]
	return c
}

// QP is the queue pair to post work to. The Conn owns it: don't close it.
func (c *Conn) QP() *uverbs.QP { return c.qp }

// PD is the protection domain to register memory in. Close what is made in it
// before the Conn.
func (c *Conn) PD() *uverbs.PD { return c.pd }

// SendCQ is where posted sends complete; its Wait parks until they do.
func (c *Conn) SendCQ() *uverbs.CQ { return c.qp.SendCQ() }

// RecvCQ is where receives complete.
func (c *Conn) RecvCQ() *uverbs.CQ { return c.qp.RecvCQ() }

// Device is the device the connection runs over.
func (c *Conn) Device() *uverbs.Device { return c.pd.Device() }

// DevicePort is the number of the device's port that the connection runs over, from
// 1, as uverbs.Device.QueryPort takes it.
//
// C: id->port_num
func (c *Conn) DevicePort() uint32 { return c.port }

// LocalAddr is this end's address and port.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's; without a peer it is invalid.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// PrivateData is what the peer sent with its request, or with its answer.
// InfiniBand and RoCE fill it up with zeros, to 56 or 196 bytes, for datagrams
// to 180 or 136.
func (c *Conn) PrivateData() []byte { return c.privateData }

// SetPrivateData replaces Config.PrivateData, which the peer gets with the request or
// with the answer to it. Call it in Config.Prepare, where the keys of regions become
// known; later it is without effect.
func (c *Conn) SetPrivateData(private []byte) { c.announced = private }

// Own hands something made in PD, such as a memory region, to the Conn: Close
// closes it after the queue pair and before PD. What Prepare makes has to be
// handed over, because nobody else can free the Conn if the attempt fails. After
// Close it is closed at once. A memory window of type 2 has to go before the queue
// pair, so it is the caller's to close. The child's Close runs within that of the Conn: it must
// not call Close, Disconnect or Own of the Conn, which would wait for that without end.
func (c *Conn) Own(child io.Closer) {
	c.closing.Lock()
	closed := c.closed
	if !closed {
		c.verbs.add(child)
	}
	c.closing.Unlock()
	if !closed || child.Close() == nil { // which may call the Conn
		return
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	c.verbs.add(child)
}

func (c *Conn) event(ev *Event) {
	switch ev.Type {
	case EventDisconnected:
		if !c.id.isIWARP() {
			_ = c.id.Disconnect() // else the peer asks again until it gives up
		}
		c.parted.Store(true)
		c.ending.end(ErrDisconnected)
	case EventDeviceRemoval:
		c.id.failQP()
		c.ending.end(ErrDeviceRemoved)
	case EventAddrChange, EventTimewaitExit:
		// Nothing to do: the connection stays as it is, or is over already.
	default:
		select {
		case c.setup <- ev:
		default: // more than any kernel sends
		}
	}
}

func (c *Conn) doomed(cause error) { c.ending.note(c.because(cause)) }

func (c *Conn) broken(err error) { c.ending.end(err) }

// await waits for the outcome of the step of connection set-up under way.
func (c *Conn) await(ctx context.Context, want EventType) (*Event, error) {
	for {
		select {
		case do := <-c.turn:
			do()
			continue
		case ev := <-c.setup:
			return c.outcome(ev, want)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ending.done:
		}
		select {
		case ev := <-c.setup: // it came first
			return c.outcome(ev, want)
		default:
			return nil, c.Err()
		}
	}
}

// take implements sink, for as long as a goroutine waits in await.
func (c *Conn) take(do func()) bool {
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
		return nil, &OpError{Op: "wait for " + want.String(), Object: c.id.String(), Err: errUnexpected, Hint: ev.Type.String() + " came"}
	}
	return ev, nil
}
