package oob

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/goverbs/goverbs/internal/conn"
	"github.com/goverbs/goverbs/internal/hooks"
	"github.com/goverbs/goverbs/internal/qpstate"
	"github.com/goverbs/goverbs/rdmacm"
	"github.com/goverbs/goverbs/uverbs"
	"github.com/goverbs/goverbs/verbs"
)

var hook = hooks.Get[*uverbs.QP, *uverbs.CQ]()

// Conn is a connected queue pair, or a queue pair of UD or SRD with a peer. Post work to QP. The methods of Conn may be
// called concurrently.
type Conn struct {
	pd       *uverbs.PD
	qp       *uverbs.QP
	local    Endpoint
	remote   Endpoint
	port     int
	gidIndex uint32
	needsGRH bool
	mtu      verbs.MTU
	depth    int
	peer     *rdmacm.Peer
	machine  machine // of the set-up
	stream   *stream // nil if the ends have exchanged their endpoints by other means

	ending  conn.Ending
	retry   time.Duration // how long packets of the peer may arrive after its end
	exposed bool          // the queue pair has received from the peer, or could have

	closing     sync.Mutex // guards the fields below
	established bool       // and this side has not disconnected
	clean       bool       // the peer has said good-bye
	closed      bool
	link        conn.Owned // the queue pair
	verbs       conn.Owned // CQs, completion channel, arguments of Own
}

func newConn(cfg *Config) *Conn {
	c := &Conn{pd: cfg.PD, port: cmp.Or(cfg.Port, 1)}
	c.local = Endpoint{Type: cmp.Or(cfg.QP.Type, verbs.QPTypeRC), Instance: instance, PrivateData: cfg.PrivateData,
		nonce: random(64), psn: uint32(random(24))}
	if isAddressed(c.local.Type) {
		c.local.qkey = uint32(random(31))
	}
	c.ending.Init()
	return c
}

// QP returns the queue pair. The Conn owns it, so don't close it.
func (c *Conn) QP() *uverbs.QP { return c.qp }

// PD returns the protection domain, which is Config's.
func (c *Conn) PD() *uverbs.PD { return c.pd }

// SendCQ returns the completion queue of posted sends.
func (c *Conn) SendCQ() *uverbs.CQ { return c.qp.SendCQ() }

// RecvCQ returns the completion queue of receives.
func (c *Conn) RecvCQ() *uverbs.CQ { return c.qp.RecvCQ() }

// Device returns the device that the connection runs over.
func (c *Conn) Device() *uverbs.Device { return c.pd.Device() }

// DevicePort returns the number of the device's port that the connection runs over, from 1.
func (c *Conn) DevicePort() int { return c.port }

// Local returns this end's endpoint.
func (c *Conn) Local() *Endpoint { return &c.local }

// Remote returns the peer's endpoint.
func (c *Conn) Remote() *Endpoint { return &c.remote }

// LocalAddr returns the address of this end's GID, with port 0.
func (c *Conn) LocalAddr() netip.AddrPort { return netip.AddrPortFrom(c.local.GID.Addr(), 0) }

// RemoteAddr returns the address of the peer's GID, with port 0.
func (c *Conn) RemoteAddr() netip.AddrPort { return netip.AddrPortFrom(c.remote.GID.Addr(), 0) }

// PrivateData returns the peer's private data.
func (c *Conn) PrivateData() []byte { return c.remote.PrivateData }

// MTU returns the path MTU that both ends have agreed on. A datagram of UD has at most that many bytes. It is no limit
// on SRD: a send has at most as many bytes as the PortAttr.MaxMsgSize of both devices, and a READ or WRITE as their
// DeviceAttr.MaxRDMASize.
func (c *Conn) MTU() verbs.MTU { return c.mtu }

// InitiatorDepth returns how many RDMA READs and atomics the queue pair may issue at a time, as both sides have
// agreed. UC and UD have none, and it is 0 on SRD, where the device decides.
func (c *Conn) InitiatorDepth() int { return c.depth }

// Peer returns the destination of the work requests of a UD or SRD Conn, and nil for other Conns. The Conn owns its AH,
// so don't close it. On SRD, the AH also lets the peer access memory of the protection domain.
func (c *Conn) Peer() *rdmacm.Peer { return c.peer }

// SetPrivateData replaces Config.PrivateData. Call it in Config.Prepare, where the keys of regions become known.
// Later calls have no effect.
func (c *Conn) SetPrivateData(private []byte) { c.local.PrivateData = private }

// Own passes an object created in PD, such as a memory region, to the Conn. [Conn.Close] closes it after the queue
// pair. Prepare must pass on the objects that it creates, because if the attempt fails only the Conn can free
// them. If the Conn is closed already, Own closes the object at once. The object's Close must not call Close,
// Disconnect or Own of the Conn.
func (c *Conn) Own(child io.Closer) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if !c.closed || child.Close() != nil {
		c.verbs.Add(child)
	}
}

// prepare creates the queue pair, and calls Config.PrepareQP and Prepare.
func (c *Conn) prepare(cfg *Config) error {
	opts, entries := cfg.QP, cfg.RecvCQEntries
	if c.Device().Info().Driver == verbs.DriverEFA {
		opts.Cap.MaxInline = cmp.Or(opts.Cap.MaxInline, efaInline)
	}
	conn.SetDefaults(&opts, &entries)
	if cfg.PrepareQP != nil {
		if err := cfg.PrepareQP(c, &opts); err != nil {
			return err
		}
	}
	if err := conn.MakeCQs(c.Device(), &opts, entries, &c.verbs, &c.ending); err != nil {
		return err
	}
	code, _ := qpstate.AckTimeoutCode(cmp.Or(cfg.AckTimeout, defaultAckTimeout)) // Config.Check has accepted it
	// Devices may wait up to four times as long.
	c.retry = min(4*qpstate.AckTimeout(code)*time.Duration(cmp.Or(cfg.RetryCount, 7)+1), longestRetry)
	qp, err := recent.create(c.pd, &opts)
	if err != nil {
		return err
	}
	c.qp = qp
	c.link.Add(conn.Freeing(c.freeQP))
	c.ending.Begin()
	if c.local.Type != verbs.QPTypeUD { // a failed work request does not end it, nor SRD's, which the provider knows
		hook.OnError(c.qp, func(s error) { c.ending.Fail(fmt.Errorf("the queue pair failed: %w", s)) })
	}
	c.local.QPN = c.qp.QPN()
	if err := c.qp.Init(&verbs.QPAttr{Port: c.port, QKey: c.local.qkey, Access: c.access()}); err != nil {
		return err
	}
	if cfg.Prepare != nil {
		if err := cfg.Prepare(c); err != nil {
			return err
		}
	}
	if n := len(c.local.PrivateData); n > MaxPrivateData {
		return fmt.Errorf("%d bytes of private data, the most is %d: %w", n, MaxPrivateData, syscall.EINVAL)
	}
	return nil
}

// access returns the most that the peer may do. Its regions grant the rest.
func (c *Conn) access() verbs.Access {
	if c.local.Type == verbs.QPTypeRC {
		return verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	}
	return verbs.AccessRemoteWrite
}

// connect moves the queue pair to RTS.
func (c *Conn) connect(cfg *Config, remote *Endpoint) error {
	c.remote, c.mtu = *remote, min(c.local.MTU, remote.MTU)
	ah := c.path(cfg)
	attr := &verbs.QPAttr{Port: c.port, AH: ah, PathMTU: c.mtu, DestQPN: remote.QPN, RQPSN: remote.psn, SQPSN: c.local.psn,
		MaxRDAtomic: min(c.local.readsOut, remote.readsIn), MaxDestRDAtomic: min(c.local.readsIn, remote.readsOut),
		AckTimeout: cmp.Or(cfg.AckTimeout, defaultAckTimeout), RetryCnt: uint8(cfg.RetryCount)}
	c.exposed = true
	if err := c.qp.Connect(attr); err != nil {
		return err
	}
	if c.local.Type == verbs.QPTypeRC {
		c.depth = int(attr.MaxRDAtomic)
	}
	if isAddressed(c.local.Type) { // SRD's peer may read and write from now on
		handle, err := c.pd.CreateAH(&ah)
		if err != nil {
			return err
		}
		c.verbs.Add(handle)
		c.peer = &rdmacm.Peer{AH: handle, QPN: remote.QPN, QKey: remote.qkey, PrivateData: remote.PrivateData}
	}
	return nil
}

// path returns the way to the peer. Within a subnet of InfiniBand, the LID suffices.
func (c *Conn) path(cfg *Config) verbs.AHAttr {
	ah := verbs.AHAttr{DLID: c.remote.LID, Port: c.port, TrafficClass: cfg.TOS}
	if c.needsGRH || c.remote.LID == 0 || [8]byte(c.local.GID[:]) != [8]byte(c.remote.GID[:]) {
		ah.Global, ah.DGID, ah.SGIDIndex, ah.HopLimit = true, c.remote.GID, c.gidIndex, hopLimit
	}
	return ah
}

// establish ends the set-up.
func (c *Conn) establish() {
	c.closing.Lock()
	defer c.closing.Unlock()
	c.established = !c.closed
	c.ending.Establish()
}

// Done returns a channel that is closed when the connection has ended: one of the sides disconnected or closed, the
// stream ended, the queue pair failed, or Close was called. Err returns the cause.
func (c *Conn) Done() <-chan struct{} { return c.ending.Done() }

// Err returns nil while the connection is up, and then the first cause of its end. It matches
// rdmacm.ErrDisconnected if either side has disconnected or the stream has ended, the verbs.Status of the first
// work request that failed, or net.ErrClosed after Close. On UD and SRD, a failed work request does not end the
// connection. An SRD queue pair itself can fail.
//
// Once all work requests have completed, Wait on the connection's own CQs returns an error that matches Err.
func (c *Conn) Err() error { return c.ending.Cause() }

// Explain returns the reason why a call on one of the connection's objects failed with err: the cause of the
// connection's end, or err itself before the end. All calls to a removed device fail with EIO. Explain then
// returns an error that also matches rdmacm.ErrDeviceRemoved.
func (c *Conn) Explain(err error) error { return c.ending.Explain(err, rdmacm.ErrDeviceRemoved) }

// Disconnect ends the connection in order, and Done is closed on both sides. It flushes work that has not completed, so
// wait for completions first. The Conn must still be closed. Without a stream, the peer learns nothing. A program that
// learns by other means that the peer has gone calls Disconnect to end the connection on this side.
func (c *Conn) Disconnect() error {
	c.closing.Lock()
	defer c.closing.Unlock()
	if !c.established {
		return c.failed("disconnect", net.ErrClosed)
	}
	c.established = false
	c.fail(rdmacm.ErrDisconnected)
	if c.stream != nil {
		c.stream.leave(&frame{kind: kindBye})
	}
	return nil
}

// fail moves the queue pair to the error state. An error means that it can't fail any further.
func (c *Conn) fail(cause error) {
	c.ending.Note(cause)
	_ = c.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
	c.ending.End(cause)
}

// gone ends the connection because the peer has said good-bye, or the stream has ended.
func (c *Conn) gone(cause error, clean bool) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if clean && c.closed {
		recent.remove(c.Device().Info().Name, c.local.QPN)
	}
	if c.clean = c.clean || clean; c.established {
		c.established = false
		c.fail(cause)
	}
}

// Close ends the connection, and frees all objects of the Conn. Work that has not completed is lost, so wait for
// completions first. Close sends a bye and closes the stream in the background, within a second.
//
// Memory windows of type 2 must be closed before. Otherwise the error matches verbs.ErrInUse and names them. The
// connection has ended even so, and another Close frees the rest, as it does after any other error. Once all is
// freed, Close returns an error that matches net.ErrClosed.
func (c *Conn) Close() error {
	if c == nil {
		return failed("close", "connection", "", os.ErrInvalid)
	}
	c.closing.Lock()
	defer c.closing.Unlock()
	if c.closed && len(c.link)+len(c.verbs) == 0 {
		return c.failed("close", net.ErrClosed)
	}
	first := !c.closed
	c.closed, c.established = true, false
	c.ending.Note(net.ErrClosed)
	err := c.link.Free() // before the bye, so that the queue pair has acknowledged all received packets
	if first && c.stream != nil {
		c.stream.leave(&frame{kind: kindBye})
	}
	c.ending.End(net.ErrClosed)
	if err != nil {
		return c.failed("close", err)
	}
	return c.failed("close", c.verbs.Free())
}

// freeQP closes the queue pair. If memory windows keep it in use, it moves it to the error state, which ends its
// work.
func (c *Conn) freeQP() error {
	if err := c.qp.Close(); err != nil {
		_ = c.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.QPAttrState)
		return err
	}
	if c.exposed && !c.clean {
		recent.add(c.Device().Info().Name, c.local.QPN, c.retry)
	}
	return nil
}

func (c *Conn) failed(op string, err error) error {
	return failed(op, "connection to "+c.RemoteAddr().Addr().String(), "", err)
}

// Format implements [fmt.Formatter]. It prints the addresses and the state, never memory.
func (c *Conn) Format(f fmt.State, _ rune) {
	state := "open"
	if err := c.Err(); err != nil {
		state = err.Error()
	}
	fmt.Fprintf(f, "oob connection %v to %v, %s", c.local.GID, c.remote.GID, state)
}
